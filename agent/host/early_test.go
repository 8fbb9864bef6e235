package host

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// slowRunner reports its launches, and completes each on a signal.
type slowRunner struct {
	runner
	launched chan agent.Bootstrap
	over     chan struct{}
}

func (r *slowRunner) readyAtStart() bool { return false }

func (r *slowRunner) start(_ context.Context, b agent.Bootstrap, _ launchSpec) (process, error) {
	r.launched <- b
	<-r.over
	return &fakeProcess{done: make(chan struct{})}, nil
}

// fakeProcess ends on a stop, and has printed nothing.
type fakeProcess struct {
	localProc
	once sync.Once
	done chan struct{}
}

func (p *fakeProcess) PID() int                { return 7 }
func (p *fakeProcess) Terminate(time.Duration) { p.once.Do(func() { close(p.done) }) }
func (p *fakeProcess) Done() <-chan struct{}   { return p.done }
func (p *fakeProcess) Exit() launch.Exit       { <-p.done; return launch.Exit{At: time.Now()} }

// startAgent starts a host agent without a host around it, and describes a mesh of n procs there.
func startAgent(t *testing.T, c params, procs int) (actor.Ref[agent.Agent], agent.Mesh) {
	t.Helper()
	p, m := startAgentProc(t, c, procs)
	return agent.Of(p.ID()).Via(p), m
}

// startAgentProc is startAgent, and also returns the agent's proc. The proc has further types.
func startAgentProc(t *testing.T, c params, procs int, types ...actor.Def) (*actor.Proc, agent.Mesh) {
	t.Helper()
	c.id = testproc.HostID(t, "a")
	c.onClosing, c.onModeChange = func(string) {}, func(agent.HostMode, string) {}
	if c.onLeft == nil {
		c.onLeft = func() {}
	}
	c.maker = new(atomic.Pointer[subjects.Sender])
	if c.closeBy == nil {
		c.closeBy = new(atomic.Pointer[time.Time])
	}
	p, _ := testproc.Start(t, bustest.Server(t), testproc.Options{Options: actor.Options{ID: c.id.Proc()}},
		append(types, agentType.Define(newAgent, methods()...).ResumeOnError())...)
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: agentType.Name(), Name: agent.Name, Params: c})
	require.NoError(t, err)
	return p, agent.Mesh{
		ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("gpu", procs),
		Hosts: []subjects.HostID{c.id}, PerHost: procs, Owner: c.id.Proc().Actor("owner"),
	}
}

// A proc can be faster than its host: it is ready before its launch is over. The launch of a kept
// proc ends with its record.
func TestLaunch_procReadyBeforeItsLaunchEndsIsRunning_HOST10(t *testing.T) {
	slow := &slowRunner{runner: newLocalRunner(Options{}), launched: make(chan agent.Bootstrap, 1),
		over: make(chan struct{})}
	host, m := startAgent(t, params{runner: slow}, 1)
	mesh := m.ID
	_, err := agent.Create.Call(t.Context(), host, agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	boot := <-slow.launched
	_, err = agent.Ready.Call(t.Context(), host, agent.ReadyReport{Proc: boot.ProcID(),
		Proof: agent.Proof(boot.Nonce, agent.ProofReady, boot.ProcID(), boot.Host, "")})
	require.NoError(t, err)
	states, err := agent.Get.Call(t.Context(), host, agent.GetRequest{ID: mesh.String()})
	require.NoError(t, err)
	require.Equal(t, agent.Initializing, states[0].Status.Phase, "not reported yet")
	close(slow.over)
	_, err = agent.Wait.Call(t.Context(), host, agent.WaitRequest{ID: mesh.String(), Until: agent.Running})
	require.NoError(t, err)
	states, err = agent.Get.Call(t.Context(), host, agent.GetRequest{ID: mesh.String()})
	require.NoError(t, err)
	require.Equal(t, []any{agent.Running, agent.ProcessReady, 7},
		[]any{states[0].Status.Phase, states[0].Proc.State, states[0].Proc.PID})
	_, err = agent.Stop.Call(t.Context(), host, agent.StopRequest{ID: mesh.String()})
	require.NoError(t, err)
}
