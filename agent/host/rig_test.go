package host_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// rig is a cluster of one host, and its client.
type rig struct {
	*testmesh.Cluster
	host   *host.Host
	client *actor.Proc
	events chan actor.Event    // of procs, as they come on the bus
	logs   *testkit.Transcript // of the host
	close  func()              // of the host, once

	perProcess int // of its meshes
}

// local makes a host run procs in its own process.
func local(t *testing.T) func(*host.Options) {
	return func(o *host.Options) {
		registry, err := actor.NewRegistry(talkerDef())
		require.NoError(t, err)
		o.Local = &host.Local{Registry: registry}
	}
}

// modes are the two ways to run procs: in OS processes, and in the host's own.
func modes(t *testing.T) map[string]func(*host.Options) {
	return map[string]func(*host.Options){"processes": func(*host.Options) {}, "local": local(t)}
}

func newRig(t *testing.T, change ...func(*host.Options)) *rig {
	t.Helper()
	r := &rig{Cluster: testmesh.Start(t, testmesh.ByOperator()), events: make(chan actor.Event, 64), logs: &testkit.Transcript{}}
	r.client = r.Proc()
	for _, subject := range actor.ProcEvents(r.client.Space(), subjects.MeshID{}) {
		_, err := r.client.Bus().Control().Subscribe(subject, func(m bus.Msg) {
			if e, err := actor.DecodeEventFrom(r.client.Space(), m); err == nil {
				e.Each(func(e actor.Event) { r.events <- e })
			}
		})
		require.NoError(t, err)
	}
	o := r.options(t, "a")
	for _, f := range change {
		f(&o)
	}
	var err error
	r.host, err = host.Start(t.Context(), o)
	require.NoError(t, err)
	r.close = testkit.Close(t, r.host.Close)
	return r
}

// newBubbleRig is a rig for a bubble of testing/synctest, without sockets, processes, events and
// logs.
func newBubbleRig(t *testing.T) *rig {
	t.Helper()
	srv := bustest.Server(t)
	r := &rig{host: hostInBubble(t, srv)}
	r.client, _ = testproc.Start(t, srv, testproc.Options{Options: actor.Options{Principal: subjects.Operator.Principal("test")}})
	return r
}

// options are those of a host that permits the tests' own binary only.
func (r *rig) options(t *testing.T, label string) host.Options {
	t.Helper()
	log := zerolog.New(r.logs).Level(zerolog.WarnLevel)
	return host.Options{Label: label, Bus: r.Open(t), Settings: r.Settings(), Log: log, RunDir: t.TempDir(),
		Version: "v0"}
}

// mesh describes a mesh of n procs of the tests' own binary.
func (r *rig) mesh(t *testing.T, procs int, env ...string) agent.Mesh {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return agent.Mesh{
		ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("host", 1).With("gpu", procs),
		Hosts: []subjects.HostID{r.host.ID()}, PerHost: procs,
		Owner: r.client.ID().Actor("controller"), Command: agent.Command{Path: exe, Env: env},
		PerProcess: r.perProcess,
	}
}

// shell is a mesh of one proc with a script as its program.
func (r *rig) shell(t *testing.T, script string) agent.Mesh {
	t.Helper()
	m := r.mesh(t, 1)
	m.Command = agent.Command{Path: "/bin/sh", Args: []string{"-c", script}}
	return m
}

func (r *rig) agent() actor.Ref[agent.Agent] { return agent.Of(r.host.ID().Proc()).Via(r.client) }

// create makes a mesh and waits until its procs run or have ended.
func (r *rig) create(t *testing.T, m agent.Mesh) agent.Overlay {
	t.Helper()
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	return r.wait(t, m, agent.Running)
}

func (r *rig) wait(t *testing.T, m agent.Mesh, until agent.Phase) agent.Overlay {
	t.Helper()
	o, err := agent.Wait.Call(t.Context(), r.agent(), agent.WaitRequest{ID: m.ID.String(), Until: until})
	require.NoError(t, err)
	return o
}

func (r *rig) stop(t *testing.T, m agent.Mesh, grace time.Duration) agent.Overlay {
	t.Helper()
	o, err := agent.Stop.Call(t.Context(), r.agent(),
		agent.StopRequest{ID: m.ID.String(), Reason: "enough", Grace: grace})
	require.NoError(t, err)
	return o
}

// states are those of the ranks of a mesh.
func (r *rig) states(t *testing.T, m agent.Mesh) []agent.State {
	t.Helper()
	s, err := agent.Get.Call(t.Context(), r.agent(), agent.GetRequest{ID: m.ID.String()})
	require.NoError(t, err)
	return s
}

func requireGone(t *testing.T, states []agent.State) {
	t.Helper()
	for _, s := range states {
		require.NotZero(t, s.Proc.PID)
		require.ErrorIs(t, syscall.Kill(s.Proc.PID, 0), syscall.ESRCH, "pid %d lives", s.Proc.PID)
	}
}

func all(n int, s agent.Status) agent.Overlay { return agent.Overlay{{First: 0, Count: n, Status: s}} }

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	require.NoError(t, err)
	return b
}
