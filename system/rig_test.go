package system_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// rig is a cluster in memory, its client, and the parts started by tests.
type rig struct {
	*testmesh.Cluster
	client *actor.Proc
	told   chan actor.Event // of worlds
	keys   *config.Config
}

func newRig(t testing.TB, options ...testmesh.Option) *rig {
	t.Helper()
	options = append(options, testmesh.InMemory(), testmesh.ByOperator())
	r := &rig{Cluster: testmesh.Start(t, options...), told: make(chan actor.Event, 1<<16),
		keys: new(config.Config)}
	r.client = r.Proc()
	_, err := r.client.Bus().Control().Subscribe(subjects.Space{}.Events(actor.KindMesh, subjects.MeshID{}),
		func(m bus.Msg) {
			if e, err := actor.DecodeEvent(m.Data); err == nil && len(e.Step) > 6 && e.Step[:6] == "world." {
				r.told <- e
			}
		})
	require.NoError(t, err)
	return r
}

// await waits for a step of a world.
func (r *rig) await(t testing.TB, world, step string) actor.Event {
	t.Helper()
	return testkit.Find(t, r.told, func(e actor.Event) bool {
		mesh, err := subjects.ParseMeshID(e.Mesh)
		require.NoError(t, err)
		return mesh.Label() == world && e.Step == step
	})
}

// open opens a connection without a network, so it works in a bubble.
func (r *rig) open(ctx context.Context, name string) (*bus.Bus, error) {
	return bus.Open(ctx, bus.Options{Server: r.Server, Token: r.Server.Token(), Name: name})
}

// serve starts a service. kill ends it as its death would: it releases nothing.
func (r *rig) serve(t testing.TB, label string) (s *system.Service, kill func()) {
	t.Helper()
	b, err := r.open(t.Context(), label)
	require.NoError(t, err)
	s, err = system.Start(t.Context(),
		system.Options{Bus: b, Label: label, Config: r.keys,
			Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel)})
	require.NoError(t, err)
	var once sync.Once
	end := func(cut bool) {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if cut {
			now, stop := context.WithCancel(ctx)
			stop()
			_ = b.Close(now) // it says that nothing was waited for
		}
		require.NoError(t, s.Close(ctx))
		if !cut {
			require.NoError(t, b.Close(ctx))
		}
	}
	t.Cleanup(func() { once.Do(func() { end(false) }) })
	return s, func() { once.Do(func() { end(true) }) }
}

// system is the controller, once there is one.
func (r *rig) system(t testing.TB) actor.Ref[*system.Controller] {
	t.Helper()
	var ref actor.Ref[*system.Controller]
	require.Eventually(t, func() (ok bool) {
		var err error
		ref, err = system.Find(t.Context(), r.client)
		return err == nil
	}, testkit.Patience, 20*time.Millisecond)
	return ref
}

// machine is a host with procs in this process.
type machine struct {
	*host.Host
	leave context.CancelFunc // the world, in good order
	gone  chan struct{}
	said  chan string
}

// hostAway starts a host without a world.
func (r *rig) hostAway(t testing.TB, label string) *machine {
	t.Helper()
	h, _ := r.Host(t, label, func(o *host.Options) {
		o.RunDir, o.Log = t.TempDir(), zerolog.Nop()
		o.Local = &host.Local{Registry: testproc.Registry(t), Open: r.open}
	})
	return &machine{Host: h, gone: make(chan struct{}), said: make(chan string, 64)}
}

// host starts a host and keeps it in a world.
func (r *rig) host(t testing.TB, label, world string, rank int) *machine {
	t.Helper()
	m := r.hostAway(t, label)
	m.join(t, world, rank)
	return m
}

// join keeps the host in a world.
func (m *machine) join(t testing.TB, world string, rank int) {
	t.Helper()
	info, err := m.Info(t.Context())
	require.NoError(t, err)
	var ctx context.Context
	ctx, m.leave = context.WithCancel(context.Background())
	joining := system.JoinRequest{World: world,
		Host: &system.HostJoin{ID: m.ID(), Rank: rank, Incarnation: info.Incarnation()}}
	go func() {
		defer close(m.gone)
		system.KeepJoined(ctx, m.Proc(), joining,
			func(_ system.JoinResponse, err error) { m.said <- fmt.Sprint(err) })
	}()
	t.Cleanup(func() {
		m.leave()
		<-m.gone
	})
}

// joined waits until the host has joined.
func (m *machine) joined(t testing.TB) {
	t.Helper()
	testkit.Find(t, m.said, func(said string) bool { return said == "<nil>" })
}

func spec(name string, extent shape.Extent, perHost int) system.Spec {
	return system.Spec{Name: name, Shape: extent, PerHost: perHost, Command: agent.Command{Path: agent.Builtin}}
}

func (r *rig) declare(t testing.TB, s system.Spec) system.UpsertResponse {
	t.Helper()
	return ask(t, r, system.Upsert, system.UpsertRequest{Spec: s})
}

// ask calls the system controller. A busy machine may miss a renewal for 2 s; then the term ends,
// and ask asks the next one. The rig's requests have the same answer there.
func ask[M, R any](t testing.TB, r *rig, e actor.Endpoint[*system.Controller, M, R], m M) (out R) {
	t.Helper()
	for ctx := testkit.Soon(t); ; {
		out, err := e.Call(ctx, r.system(t), m)
		if !errors.Is(err, actor.ErrNoProc) && !errors.Is(err, actor.ErrStopped) {
			require.NoError(t, err)
			return out
		}
	}
}

func (r *rig) snapshot(t testing.TB, world string) system.WorldState {
	t.Helper()
	s := ask(t, r, system.GetSnapshot, system.Filter{Worlds: []string{world}})
	require.Len(t, s.Worlds, 1)
	return s.Worlds[0]
}

// liveProcs are the live procs of a mesh on a host: rank.gen of each.
func (r *rig) liveProcs(t testing.TB, m *machine, mesh string) (out []string) {
	t.Helper()
	states, err := agent.Get.Call(testkit.Soon(t), agent.Of(m.ID().Proc()).Via(r.client),
		agent.GetRequest{ID: mesh})
	require.NoError(t, err)
	for _, s := range states {
		if !s.Status.Phase.Terminal() {
			out = append(out, fmt.Sprintf("%d.%d", s.Rank, s.Gen))
		}
	}
	return out
}

// pinger sends to an actor of another proc, and reports dead letters.
type pinger struct{ to actor.Ref[*pinger] }

var (
	pingerType = actor.NewType[*pinger, subjects.ProcID]("pinger")
	poke       = actor.NewEndpoint[*pinger, bool, actor.None]("poke")
)

func (g *pinger) poke(ctx *actor.Context, pass bool) (actor.None, error) {
	if !pass {
		return actor.None{}, nil
	}
	return actor.None{}, poke.Send(ctx, g.to, false)
}

func (g *pinger) HandleDeadLetter(ctx *actor.Context, r actor.DeadLetter) error {
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		_ = system.ReportDeadLetter(work, p, r) // the test waits for what comes of it
		return nil
	})
	return nil
}

// member starts a self-joined proc.
func (r *rig) member(t testing.TB, id subjects.ProcID) (p *actor.Proc, stop func()) {
	t.Helper()
	return testproc.Start(t, r.Server, testproc.Options{Options: actor.Options{ID: id, Bus: r.Open(t)}},
		pingerType.Define(func(ctx *actor.Context, to subjects.ProcID) (*pinger, error) {
			return &pinger{actor.RefOf[*pinger](to.Actor("pinger")).Via(ctx.Proc())}, nil
		}, poke.Handle((*pinger).poke)))
}
