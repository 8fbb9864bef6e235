package gateway

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// patience bounds each wait. Only a failing test uses it up.
const patience = 30 * time.Second

// The procs run the tests' own binary.
func TestMain(m *testing.M) {
	proc.Main(probeDef())
	testkit.Main(m)
}

var probeType = actor.NewType[*probe, actor.None]("probe")

// probe is the target of casts.
type probe struct{ rank, handled int }

func (p *probe) get(*actor.Context, actor.None) (int, error) { p.handled++; return p.rank, nil }
func (p *probe) count(*actor.Context, actor.None) (int, error) {
	return p.handled, nil
}
func (p *probe) big(_ *actor.Context, n int) (string, error) { return strings.Repeat("x", n), nil }
func (p *probe) keys(*actor.Context, actor.None) (map[int]int, error) {
	return map[int]int{p.rank: 1}, nil
}
func (p *probe) null(*actor.Context, actor.None) (*int, error) { return nil, nil }
func (p *probe) odd(*actor.Context, actor.None) (int, error) {
	if p.rank%2 == 0 {
		return 0, errors.New("even")
	}
	return p.rank, nil
}

var traced = actor.NewEndpoint[*probe, []actor.Ref[*probe], []string]("traced")

// traced answers the trace of its message, and those which further probes see in calls.
func (p *probe) traced(ctx *actor.Context, further []actor.Ref[*probe]) ([]string, error) {
	all := []string{ctx.Trace().String()}
	for _, to := range further {
		seen, err := traced.Call(ctx, to, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, seen...)
	}
	return all, nil
}

func probeDef() actor.Def {
	made := func(ctx *actor.Context, _ actor.None) (*probe,
		error) {
		return &probe{rank: ctx.Point().Rank()}, nil
	}
	return probeType.Define(made,
		actor.NewEndpoint[*probe, actor.None, int]("get").Handle((*probe).get),
		actor.NewEndpoint[*probe, actor.None, int]("count").Handle((*probe).count),
		actor.NewEndpoint[*probe, int, string]("big").Handle((*probe).big),
		actor.NewEndpoint[*probe, actor.None, map[int]int]("keys").Handle((*probe).keys),
		actor.NewEndpoint[*probe, actor.None, *int]("null").Handle((*probe).null),
		actor.NewEndpoint[*probe, actor.None, int]("odd").Handle((*probe).odd),
		traced.Handle((*probe).traced),
	)
}

// system is a host with its gateway, an owner of meshes, and a plain client.
type system struct {
	*testing.T
	cluster *testmesh.Cluster
	net     *mesh.Net
	gateway *Gateway
	host    *host.Host // of the gateway
	client  *bus.Conn
}

func newSystem(t *testing.T) *system {
	t.Helper()
	t.Parallel() // they mostly wait
	s := &system{T: t, cluster: testmesh.Start(t)}
	s.client, s.net = s.cluster.Open(t).Control(), s.cluster.Net
	s.gateway, s.host = s.withHost("a")
	return s
}

// withHost is one more host with a gateway in its heartbeats.
func (s *system) withHost(label string) (*Gateway, *host.Host) {
	s.Helper()
	h, _ := s.cluster.Host(s, label)
	g := s.another(label)
	h.SetGateway(g.Announced)
	return g, h
}

// another is one more gateway.
func (s *system) another(label string) *Gateway {
	s.Helper()
	o := s.cluster.BusOptions(s)
	g, err := Start(s.Context(), Options{Label: label, Bus: &o})
	require.NoError(s, err)
	testkit.Close(s, g.Close)
	return g
}

// spawn starts a mesh `demo` of some probes.
func (s *system) spawn(n int) mesh.ProcMesh {
	s.Helper()
	procs, _ := s.spawnNamed("demo", n)
	return procs
}

func (s *system) spawnNamed(name string, n int) (mesh.ProcMesh, mesh.ActorMesh[*probe]) {
	s.Helper()
	hosts, err := s.net.AwaitHosts(s.Context(), 1)
	require.NoError(s, err)
	procs, err := hosts.Spawn(s.Context(), name, shape.Of("gpu", n))
	require.NoError(s, err)
	probes, err := mesh.Spawn(s.Context(), procs, probeType, "probe", actor.None{})
	require.NoError(s, err)
	return procs, probes
}

// pids are the processes of all live meshes.
func (s *system) pids() (out []int) {
	s.Helper()
	all, err := s.net.Meshes(s.Context())
	require.NoError(s, err)
	for _, m := range all {
		for _, st := range m.States {
			if st.Proc != nil && !st.Status.Phase.Terminal() {
				out = append(out, st.Proc.PID)
			}
		}
	}
	return out
}

// freeze stops all procs; thaw continues them.
func (s *system) freeze() (thaw func()) {
	s.Helper()
	pids := s.pids()
	for _, pid := range pids {
		proctest.Suspend(s, pid)
	}
	thaw = func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT) // a test may thaw twice
		}
	}
	s.Cleanup(thaw)
	return thaw
}

// request is a plain request to an endpoint of the probes, with headers in pairs.
func (s *system) request(endpoint, body string, headers ...string) bus.Msg {
	m := bus.Msg{Subject: "castnet.v1.default.cast.demo.probe." + endpoint + ".u-anon.x", Data: []byte(body),
		Header: bus.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Add(headers[i], headers[i+1])
	}
	return m
}

// ask returns the one answer.
func (s *system) ask(endpoint, body string, headers ...string) bus.Msg {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	m, err := s.client.Request(ctx, s.request(endpoint, body, headers...))
	require.NoError(s, err)
	return m
}

// stream returns the answers up to the empty one.
func (s *system) stream(endpoint, body string, headers ...string) (all []bus.Msg) {
	s.Helper()
	return s.until(s.request(endpoint, body, append(headers, headerCollect, modeStream)...))
}

// until returns the answers to a request up to an empty message.
func (s *system) until(m bus.Msg) (all []bus.Msg) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for m, err := range s.client.RequestMany(ctx, m, 0) {
		require.NoError(s, err)
		all = append(all, m)
		if len(m.Data) == 0 {
			return all
		}
	}
	require.FailNow(s, "no empty message", "%v", all)
	return nil
}

// numbers are the coverage in an answer.
func numbers(m bus.Msg) (out []string) {
	for _, key := range []string{headerAsked, headerAnswered, headerFailed, headerMissing} {
		out = append(out, m.Header.Get(key))
	}
	return out
}
