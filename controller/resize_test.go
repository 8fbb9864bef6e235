package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestStep_othersLearnOfAddedRanksOnceTheyRun_CTL20(t *testing.T) {
	m := meshOf(t, shape.Of("host", 2).With("gpu", 2), 2)
	st, err := newState(Spec{Procs: m, Region: m.Extent.Region()})
	require.NoError(t, err)
	now := time.Now()
	st.step(agent.Overlay{{First: 0, Count: 4, Status: agent.Status{Phase: agent.Running}}}, now)
	grown, err := m.Resize(append(m.Hosts, testproc.HostID(t, "c")))
	require.NoError(t, err)
	st.step(growth{grown}, now)
	require.Equal(t, 2, len(st.description().Hosts), "others do not know them")
	require.Equal(t, agent.Overlay{{First: 4, Count: 2, Status: agent.Status{Phase: agent.Initializing}}},
		st.overlayFrom(4))
	st.step(agent.Overlay{{First: 4, Count: 2, Status: agent.Status{Phase: agent.Running}}}, now)
	joined := st.step(resized{}, now).events
	require.Len(t, joined, 2)
	require.Equal(t, []any{4, "running", "rank.add"}, []any{joined[0].Rank, joined[0].Status, joined[0].Step})
	require.Equal(t, grown, st.description())
	require.Equal(t, agent.Running, st.phase())

	small := st.spec.Procs
	small.FirstGen = st.firstGenOfAdded(2)
	small, err = small.Resize(small.Hosts[:1])
	require.NoError(t, err)
	st.step(shrinkage{small, "no need"}, now)
	require.Equal(t, 1, len(st.description().Hosts), "others know it before the ranks stop")
	require.Equal(t, agent.ShuttingDown, st.phaseOf(2))
	require.Equal(t, agent.Running, st.phaseOf(1))
	st.step(resized{}, now)
	require.Equal(t, 2, st.spec.Region.NumRanks())
	require.Equal(t, agent.NotExist, st.phaseOf(2))

	again, err := small.Resize(append([]subjects.HostID{small.Hosts[0]}, testproc.HostID(t, "d")))
	require.NoError(t, err)
	st.step(growth{again}, now)
	require.Equal(t, 1, st.table.Gen(st.spec.id(), 2), "an address never comes back")
	require.True(t, st.neverRan(2))
	died := actor.Event{Kind: actor.KindProc, Mesh: again.ID.String(), Rank: 2, Gen: 1, Status: "failed"}
	x := st.step(died, now)
	require.Equal(t, agent.Failed, st.phaseOf(2))
	require.Empty(t, x.events, "others do not know the rank")
	require.Empty(t, x.failures)
}

// The reply to a renewal may arrive after the Shrink, and after the next Grow.
func TestStep_removedRanksAreNotLost_CTL20(t *testing.T) {
	m := meshOf(t, shape.Of("host", 2).With("gpu", 2), 2)
	st, err := newState(Spec{Procs: m, Region: m.Extent.Region()})
	require.NoError(t, err)
	now := time.Now()
	running := agent.Status{Phase: agent.Running}
	st.step(agent.Overlay{{First: 0, Count: 4, Status: running}}, now)
	small := m
	small.FirstGen = st.firstGenOfAdded(2)
	small, err = small.Resize(m.Hosts[:1])
	require.NoError(t, err)
	request := st.newRequest(location{host: 1})
	require.Equal(t, []int{2, 3}, request.expected)
	st.step(shrinkage{small, "no need"}, now)
	st.step(resized{}, now)
	replies := []agent.Overlay{nil, {{First: 2, Count: 2, Status: agent.Status{Phase: agent.Stopped}}}}
	due := func() {
		for _, o := range replies {
			require.Zero(t, st.step(request.answered(o, nil), now).wake)
		}
		require.Empty(t, st.step(timerFired{}, now.Add(endEventGrace)).procEnds)
	}
	due()
	again, err := small.Resize(append([]subjects.HostID{small.Hosts[0]}, testproc.HostID(t, "d")))
	require.NoError(t, err)
	st.step(growth{again}, now)
	st.step(agent.Overlay{{First: 2, Count: 2, Status: running}}, now)
	due()
	require.Equal(t, running.Phase, st.phaseOf(2))
}

// Hosts that are silent for a while may have another owner already.
// A dead host leaves the mesh and returns. The stop of its former ranks would reach those of a
// growth.
func TestStep_returnedHostStopsFormerRanksOnceBeforeTheNextGrowth_CTL20(t *testing.T) {
	m := meshOf(t, shape.Of("host", 2).With("gpu", 2), 2)
	st, err := newState(Spec{Procs: m, Region: m.Extent.Region()})
	require.NoError(t, err)
	now := time.Now()
	st.step(agent.Overlay{{First: 0, Count: 4, Status: agent.Status{Phase: agent.Running}}}, now)
	last := m.Hosts[1]
	is := func(s presence.State) []subjects.HostID {
		return st.step(hostChange{Host: last, State: s, At: now}, now).staleHosts
	}
	is(presence.Dead)
	small := m
	small.FirstGen = st.firstGenOfAdded(2)
	small, err = small.Resize(m.Hosts[:1])
	require.NoError(t, err)
	st.step(shrinkage{small, "no need"}, now)
	st.step(resized{}, now)
	c := &controller{state: st, started: true}
	_, err = c.resizedMesh(agent.ResizeRequest{Add: []subjects.HostID{last}})
	require.ErrorContains(t, err, "has not yet stopped its former ranks")
	require.Equal(t, []subjects.HostID{last}, is(presence.Alive))
	is(presence.Suspect)
	require.Empty(t, is(presence.Alive), "a stop is under way")
	st.step(staleStopped{last, errors.New("no answer")}, now)
	_, err = c.resizedMesh(agent.ResizeRequest{Add: []subjects.HostID{last}})
	require.ErrorContains(t, err, "has not yet stopped its former ranks")
	is(presence.Suspect)
	require.Equal(t, []subjects.HostID{last}, is(presence.Alive))
	st.step(staleStopped{last, nil}, now)
	_, err = c.resizedMesh(agent.ResizeRequest{Add: []subjects.HostID{last}})
	require.NoError(t, err)
	is(presence.Suspect)
	require.Empty(t, is(presence.Alive))
}

func TestRenewal_repeatsTheRefusedStopOfFormerRanks_CTL8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.hosts[1].averse = 2
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		last := r.spec.Procs.Hosts[1]
		for _, is := range []presence.State{presence.Dead, presence.Alive} {
			change := hostChange{Host: last, State: is, At: time.Now()}
			require.NoError(t, notify.Send(t.Context(), ref, notification{change}))
		}
		r.hosts[1].await(t, "stop", 3)
	})
}

// Ranks that never ran have ended already, so the stop of a failed growth awaits its host. The next
// growth would start ranks on this host, and a late stop would end them.
func TestResize_failedGrowthEndsOnceItsHostsHaveAnswered_CTL20(t *testing.T) {
	busy := make(chan struct{})
	r := newRig(t, func(h *fakeHost) {
		if h.ranks[0] > 0 {
			h.refuse, h.busy = errors.New("no room"), busy
		}
	})
	last := r.spec.Procs.Hosts[1]
	var err error
	r.spec.Procs, err = r.spec.Procs.Resize(r.spec.Procs.Hosts[:1])
	require.NoError(t, err)
	r.spec.Region = r.spec.Procs.Extent.Region()
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	more := agent.ResizeRequest{ID: idOf(t, ref), Add: []subjects.HostID{last}}
	grown := make(chan agent.ResizeResponse, 1)
	go func() {
		said, err := agent.Resize.Call(testkit.Soon(t), ref, more)
		assert.NoError(t, err)
		grown <- said
	}()
	r.hosts[1].await(t, "stop", 1)
	_, err = agent.Resize.Call(testkit.Soon(t), ref, more)
	require.ErrorContains(t, err, "its hosts change already")
	close(busy)
	require.Equal(t, agent.Failed, testkit.Next(t, grown).Statuses[0].Status.Phase)
}

func TestResize_ownerThatNoHostConfirmsAddsNoHost_CTL20(t *testing.T) {
	for want, said := range map[string]error{"too busy": errors.New("too busy"), "host b has no rank of it": nil} {
		t.Run(want, func(t *testing.T) {
			r := newRig(t, func(h *fakeHost) {
				h.renew = func() (agent.Overlay, error) { return nil, said }
			})
			ref := r.own(t, r.spec)
			create(t, ref)
			wait(t, ref, agent.Running)
			more := agent.ResizeRequest{ID: idOf(t, ref), Add: []subjects.HostID{testproc.HostID(t, "c")}}
			_, err := agent.Resize.Call(testkit.Soon(t), ref, more)
			require.ErrorContains(t, err, "no host of "+more.ID+" confirms its owner")
			require.ErrorContains(t, err, want)
		})
	}
}

// follower owns actors on a mesh. It notes the number of hosts in each Follow.
type follower struct {
	agent.Agent
	told testkit.Notes[int]
}

func TestResize_growthRepeatsTheLastShrinkToOwnersOfActors_CTL20(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		f := &follower{}
		typ := actor.NewType[agent.Agent, actor.None]("follower")
		p, _ := r.proc(t, subjects.ProcID{}, typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) {
			return f, nil
		}, agent.Follow.Handle(func(_ agent.Agent, _ *actor.Context, q agent.FollowRequest) (agent.Overlay, error) {
			f.told.Add(len(q.Mesh.Hosts))
			return nil, errors.New("busy")
		})))
		owner, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: "follower", Params: actor.None{}})
		require.NoError(t, err)
		echo := actor.NewType[*struct{}, int]("echo").Define(func(*actor.Context, int) (*struct{}, error) {
			return &struct{}{}, nil
		})
		at := r.join(t, 1, echo)[0]
		_, err = agent.Create.Call(t.Context(), agent.Of(at.ID()).Via(p), agent.CreateRequest{
			Actors: &agent.ActorSpec{Name: "echoes", Type: "echo", Params: []byte{1}, Owner: owner},
			Claim:  agent.Claim{Owner: owner}, Wait: true,
		})
		require.NoError(t, err)
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		_, err = agent.Resize.Call(t.Context(), ref, agent.ResizeRequest{ID: idOf(t, ref), Remove: 1})
		require.NoError(t, err)
		r.hosts[1].startAgain() // it knows later generations
		more := agent.ResizeRequest{ID: idOf(t, ref), Add: r.spec.Procs.Hosts[1:]}
		_, err = agent.Resize.Call(t.Context(), ref, more)
		require.NoError(t, err)
		require.Equal(t, []int{1, 1, 2, 1}, f.told.All(nil), "also the failed growth is undone")
	})
}
