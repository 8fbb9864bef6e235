package proc_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// worker is a process of the tests' own binary, launched as a proc.
type worker struct {
	cmd      *exec.Cmd
	lifeline *os.File // of which the worker has the other end
	stderr   bytes.Buffer
}

// launchWorker starts a worker with a payload, as a host would.
func launchWorker(t *testing.T, payload []byte, env ...string) *worker {
	t.Helper()
	boot, bootIn, err := os.Pipe()
	require.NoError(t, err)
	life, lifeIn, err := os.Pipe()
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	w := &worker{cmd: exec.CommandContext(ctx, exe), lifeline: lifeIn}
	w.cmd.Env = append([]string{launch.EnvVar + "=3,4"}, env...)
	w.cmd.ExtraFiles, w.cmd.Stderr = []*os.File{boot, life}, &w.stderr
	require.NoError(t, w.cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = w.cmd.Wait() // an error says that it was waited for
		_ = lifeIn.Close()
	})
	_, err = bootIn.Write(payload)
	require.NoError(t, errors.Join(err, bootIn.Close(), boot.Close(), life.Close()))
	return w
}

// exit waits for the worker's end.
func (w *worker) exit(t *testing.T) (code int, stderr string) {
	t.Helper()
	err := w.cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok {
		require.NoError(t, err)
	} else {
		require.True(t, e.Exited(), "%v", e)
	}
	return w.cmd.ProcessState.ExitCode(), w.stderr.String()
}

// fakeHost is the agent that receives Ready from workers.
type fakeHost struct {
	agent.Agent
	said   chan agent.ReadyReport
	refuse error
}

// newHost is a proc with such an agent.
func newHost(t *testing.T, srv *embed.Server, refuse error) (*actor.Proc, *fakeHost) {
	t.Helper()
	h := &fakeHost{said: make(chan agent.ReadyReport, 1), refuse: refuse}
	typ := actor.NewType[agent.Agent, actor.None]("fake-host")
	def := typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return h, nil },
		agent.Ready.Handle(func(_ agent.Agent, _ *actor.Context, r agent.ReadyReport) (actor.None, error) {
			h.said <- r
			return actor.None{}, h.refuse
		}))
	p := newClient(t, srv, subjects.Host, def)
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(t, err)
	return p, h
}

// bootstrap is the bootstrap of a host at p for rank 1 of 2.
func bootstrap(t *testing.T, p *actor.Proc, url string) agent.Bootstrap {
	t.Helper()
	return agent.Bootstrap{
		Mesh: agent.Mesh{ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("gpu", 2),
			Hosts: []subjects.HostID{testproc.HostID(t, "a")}, PerHost: 2, Owner: owner(t)},
		Rank: 1, Host: p.ID().Actor(agent.Name), Nonce: "nonce", Bus: agent.BusSettings{URL: url},
	}
}

func encoded(t *testing.T, b agent.Bootstrap) []byte {
	t.Helper()
	data, err := wire.Marshal(agent.LaunchPayload{Proc: &b})
	require.NoError(t, err)
	return data
}

func listening(t *testing.T) *embed.Server {
	t.Helper()
	return bustest.Server(t, func(o *embed.Options) { o.DontListen = false })
}

func TestMain_badBootstrapPrintsOneLineAndExits1(t *testing.T) {
	srv := listening(t)
	p, _ := newHost(t, srv, nil)
	nowhere := bootstrap(t, p, "nats://127.0.0.1:1")
	odd := bootstrap(t, p, srv.URL())
	odd.Namespace = "a b"
	outside := bootstrap(t, p, srv.URL())
	outside.Rank = 2
	for want, payload := range map[string][]byte{
		"agent.Launch":      []byte("garbage"),
		"bootstrap: decode": nil,
		"127.0.0.1:1":       encoded(t, nowhere),
		`"a b"`:             encoded(t, odd),
		`"2"`:               encoded(t, outside),
	} {
		code, stderr := launchWorker(t, payload).exit(t)
		require.Equal(t, 1, code, want)
		require.Contains(t, stderr, want)
		require.True(t, strings.HasPrefix(stderr, "castnet proc: "), stderr)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

func TestMain_malformedDefinitionsAlwaysEndTheProgram(t *testing.T) {
	code, stderr := launchWorker(t, nil, "PROC_TEST_MALFORMED=1").exit(t)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"two words"`)
	code, stderr = launchWorker(t, nil, launch.EnvVar+"=7").exit(t)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, launch.EnvVar)
}

func TestReady_procIsReachableOnceItReports_PROC1(t *testing.T) {
	srv := listening(t)
	p, h := newHost(t, srv, nil)
	boot := bootstrap(t, p, srv.URL())
	w := launchWorker(t, encoded(t, boot))
	said := testkit.Next(t, h.said)
	require.Equal(t, boot.ProcID(), said.Proc)
	require.NotContains(t, string(said.Proof), "nonce")
	require.True(t, agent.CheckProof(said.Proof, "nonce", agent.ProofReady, boot.ProcID(), boot.Host, ""))
	require.Equal(t, []string{"counter"}, said.Types)
	require.NotEmpty(t, said.Build)
	_, err := agent.Ping.Call(t.Context(), agent.Of(said.Proc).Via(p), actor.None{})
	require.NoError(t, err)

	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	code, stderr := w.exit(t) // PROC-2
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
}

func TestMain_refusingHostIsTheReason(t *testing.T) {
	srv := listening(t)
	p, _ := newHost(t, srv, errors.New("who are you?"))
	code, stderr := launchWorker(t, encoded(t, bootstrap(t, p, srv.URL()))).exit(t)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "cannot report ready to host")
	require.Contains(t, stderr, "who are you?")
}

// busy is a worker with one actor in an endless handler.
func busy(t *testing.T) *worker {
	t.Helper()
	srv := listening(t)
	p, h := newHost(t, srv, nil)
	w := launchWorker(t, encoded(t, bootstrap(t, p, srv.URL())))
	said := testkit.Next(t, h.said)
	client := newClient(t, srv, subjects.Program)
	_, err := agent.Create.Call(t.Context(), agent.Of(said.Proc).Via(client),
		agent.CreateRequest{Actors: counterSpec(t, "c", 0)})
	require.NoError(t, err)
	_, err = agent.Wait.Call(t.Context(), agent.Of(said.Proc).Via(client),
		agent.WaitRequest{ID: "c", Until: agent.Running})
	require.NoError(t, err)
	c := actor.RefOf[*counter](said.Proc.Actor("c")).Via(client)
	require.NoError(t, hang.Send(t.Context(), c, actor.None{}))
	for { // until the handler runs
		states, err := agent.Get.Call(t.Context(), agent.Of(said.Proc).Via(client), agent.GetRequest{ID: "c"})
		require.NoError(t, err)
		if states[0].Actor.Current == "hang" {
			return w
		}
	}
}

func TestMain_endsWithItsHostDespiteBusyActors_PROC2(t *testing.T) {
	t.Parallel()
	w := busy(t)
	since := time.Now()
	require.NoError(t, w.lifeline.Close())
	code, _ := w.exit(t)
	require.Equal(t, 1, code)
	require.Less(t, time.Since(since), 8*time.Second)
}

func TestMain_secondTermEndsAtOnce_PROC2(t *testing.T) {
	w := busy(t)
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGINT)) // another number, or the kernel may merge them
	code, _ := w.exit(t)
	require.Equal(t, 1, code)
}

func TestMain_keptProcAwaitsAdoptionUntilItsTimeout_PROC2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most time.Duration
		told func(*agent.Bootstrap)
	}{
		"by its host": {300 * time.Millisecond,
			func(b *agent.Bootstrap) { b.AdoptionTimeout = 300 * time.Millisecond }},
		"by its client": {time.Second, func(b *agent.Bootstrap) { b.Config = adoption(t, time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			srv := listening(t)
			p, h := newHost(t, srv, nil)
			boot := bootstrap(t, p, srv.URL())
			c.told(&boot)
			w := launchWorker(t, encoded(t, boot), launch.EnvVar+"=3,4,keep")
			testkit.Next(t, h.said)
			gone := time.Now()
			require.NoError(t, w.lifeline.Close())
			code, stderr := w.exit(t)
			require.Zero(t, code, stderr)
			require.GreaterOrEqual(t, time.Since(gone), c.most)
		})
	}
}

// adoption is a client's configuration with a time for kept procs to be adopted.
func adoption(t *testing.T, d time.Duration) config.Snapshot {
	t.Helper()
	c := &config.Config{}
	require.NoError(t, config.ProcAdoptionTimeout.Override(c, d))
	return c.Snapshot()
}

func TestAdopt_requiresTheNonce_PROC2(t *testing.T) {
	srv := listening(t)
	p, h := newHost(t, srv, nil)
	boot := bootstrap(t, p, srv.URL())
	w := launchWorker(t, encoded(t, boot))
	testkit.Next(t, h.said)
	to := agent.Of(boot.ProcID()).Via(p)
	ask := func(nonce, claim, challenge string) agent.ReadoptRequest {
		return agent.ReadoptRequest{Proc: boot.ProcID(), Host: boot.Host, Challenge: "now",
			Proof: agent.Proof(nonce, claim, boot.ProcID(), boot.Host, challenge)}
	}
	for name, r := range map[string]agent.ReadoptRequest{
		"no proof":              {Proc: boot.ProcID(), Host: boot.Host},
		"a guess":               ask("guess", agent.ProofReadopt, "now"),
		"the proof of the proc": ask(boot.Nonce, agent.ProofReady, "now"),
		"an old proof":          ask(boot.Nonce, agent.ProofReadopt, "before"),
	} {
		_, err := agent.Readopt.Call(t.Context(), to, r)
		require.ErrorContains(t, err, "want the proof of its launch", name)
	}
	got, err := agent.Readopt.Call(t.Context(), to, ask(boot.Nonce, agent.ProofReadopt, "now"))
	require.NoError(t, err)
	require.Equal(t, w.cmd.Process.Pid, got.PID)
	require.True(t, agent.CheckProof(got.Proof, boot.Nonce, agent.ProofAdopted, boot.ProcID(), boot.Host, "now"))
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	code, stderr := w.exit(t)
	require.Zero(t, code, stderr)
}
