package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// keeping plays a kept mesh of two hosts, up to the death of the second.
func keeping(t *testing.T, policy ...string) (*scenario, effects) {
	t.Helper()
	s := &scenario{t: t}
	s.start([]string{"2", "2"}, nil, "*", policy, func(spec *Spec) { spec.Procs.Keep = true })
	s.st.step(agent.Overlay{{First: 0, Count: 4, Status: agent.Status{Phase: agent.Running}}}, s.now)
	return s, s.hostIs(presence.Dead)
}

// hostIs gives a scenario a change of its second host.
func (s *scenario) hostIs(state presence.State) effects {
	return s.st.step(hostChange{Host: s.hostOf("b"), State: state, Reason: "silent for 5s", At: s.now}, s.now)
}

func TestOrphanCheck_answeringProcsOfADeadHostStay_CTL16(t *testing.T) {
	s, x := keeping(t)
	b := s.hostOf("b")
	require.Equal(t, []subjects.HostID{b}, x.orphanHosts)
	require.Empty(t, x.events)
	kept := "\t0+2 running\n\t2+2 running: its host b is dead; its proc may still run: silent for 5s\n"
	require.Equal(t, kept, s.trace(effects{}))
	s.st.withoutOrphans[b] = true // by an answer that came too late
	x = s.hostIs(presence.Alive)
	require.Empty(t, x.staleHosts, "it is to adopt them")
	require.Equal(t, "\t0+4 running\n", s.trace(effects{}))
	require.Equal(t, []subjects.HostID{b}, s.hostIs(presence.Dead).orphanHosts, "and may die again")
	s.applyLine("proc", strings.Fields("2 failed killed by signal 9"))
	require.Contains(t, s.trace(effects{}), "2+1 failed: killed by signal 9\n\t3+1 running")
}

func TestOrphanCheck_silentProcsOfADeadHostFail_CTL16(t *testing.T) {
	s, _ := keeping(t)
	s.st.withoutOrphans[s.hostOf("b")] = true
	x := s.hostIs(presence.Dead)
	require.Empty(t, x.orphanHosts)
	require.Len(t, x.procEnds, 1, "its end is an event")
	require.Equal(t, "\t0+2 running\n\t2+2 failed: host b is dead: silent for 5s\n", s.trace(effects{}))
	require.Len(t, s.hostIs(presence.Alive).staleHosts, 1, "its remaining procs get a stop")

	s, _ = keeping(t, "transient", "d")
	s.st.withoutOrphans[s.hostOf("b")] = true
	s.hostIs(presence.Dead)
	s.applyLine("after", []string{"100ms"})
	require.Contains(t, s.applyLine("due", nil), "\tstarts: 2.1 on d\n\tstarts: 3.1 on d\n",
		"a spare host takes its place")
}

func TestOrphanCheck_returningHostLearnsOfTheStop_CTL16(t *testing.T) {
	s, _ := keeping(t)
	s.applyLine("stop", []string{"enough"})
	require.Len(t, s.hostIs(presence.Alive).staleHosts, 1)
}

// keptProc makes the last proc of the mesh answer until it is killed.
func (r *rig) keptProc(t *testing.T) (kill func()) {
	t.Helper()
	typ := actor.NewType[agent.Agent, actor.None]("fake-proc")
	p, kill := r.proc(t, r.spec.Procs.ProcID(3, 0),
		typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return &fakeProc{}, nil },
			agent.Ping.Handle(agent.Agent.Ping)))
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(t, err)
	return kill
}

// fakeProc is the agent of a live proc without actors.
type fakeProc struct{ agent.Agent }

func (*fakeProc) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

func TestOrphanCheck_repeatsUntilNoProcAnswers_CTL16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Procs.Keep = true
		cfg := &config.Config{}
		require.NoError(t, config.SupervisionPollInterval.Override(cfg, 50*time.Millisecond))
		agent.SetConfig(r.p, cfg)
		kill := r.keptProc(t)
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		dead := hostChange{Host: r.spec.Procs.Hosts[1], State: presence.Dead, Reason: "killed"}
		_, err := notify.Call(t.Context(), ref, notification{dead})
		require.NoError(t, err)
		kept := agent.Overlay{
			{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}},
			{First: 2, Count: 2, Status: agent.Status{Phase: agent.Running,
				Reason: "its host b is dead; its proc may still run: killed"}},
		}
		require.Equal(t, kept, overlay(t, ref))
		kill()
		ctx := testkit.Soon(t)
		part, err := r.spec.Region.Slice("host", 1, 2)
		require.NoError(t, err)
		_, err = agent.Wait.Call(ctx, ref, agent.WaitRequest{ID: idOf(t, ref), Until: agent.Stopped, Region: &part})
		require.NoError(t, err)
		require.Equal(t, agent.Overlay{kept[0],
			{First: 2, Count: 2, Status: agent.Status{Phase: agent.Failed, Reason: "host b is dead: killed"}}},
			overlay(t, ref))
	})
}
