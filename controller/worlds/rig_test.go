package worlds_test

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
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// rig is a server, a client, and what the tests start.
type rig struct {
	srv    *embed.Server
	client *actor.Proc
	told   chan actor.Event // of worlds
	keys   *config.Config
}

func newRig(t testing.TB, change ...func(*embed.Options)) *rig {
	t.Helper()
	r := &rig{srv: bustest.Server(t, append(change, func(o *embed.Options) { o.DontListen = false })...), told: make(chan actor.Event, 1<<16), keys: new(config.Config)}
	b := bustest.Open(t, r.srv)
	id, err := subjects.NewMeshID("client")
	require.NoError(t, err)
	r.client, err = actor.NewProc(t.Context(), actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: b})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.client.Close(context.Background())) })
	_, err = b.Control().Subscribe(subjects.Space{}.Events(actor.KindMesh, subjects.MeshID{}), func(m bus.Msg) {
		if e, err := actor.DecodeEvent(m.Data); err == nil && len(e.Step) > 6 && e.Step[:6] == "world." {
			r.told <- e
		}
	})
	require.NoError(t, err)
	return r
}

func store(o *embed.Options) { o.JetStream = true }

// patience bounds every wait.
const patience = 30 * time.Second

// await waits until a step is told of a world.
func (r *rig) await(t testing.TB, world, step string) actor.Event {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-r.told:
			mesh, err := subjects.ParseMeshID(e.Mesh)
			require.NoError(t, err)
			if mesh.Label() == world && e.Step == step {
				return e
			}
		case <-limit:
			t.Fatalf("%s of %s was never told", step, world)
		}
	}
}

// serve starts a service. kill ends it as its death would: nothing is given back.
func (r *rig) serve(t testing.TB, label string) (s *worlds.Service, kill func()) {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{Server: r.srv, Name: label})
	require.NoError(t, err)
	s, err = worlds.Start(t.Context(), worlds.Options{Bus: b, Label: label, Config: r.keys, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel)})
	require.NoError(t, err)
	var once sync.Once
	end := func(cut bool) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
func (r *rig) system(t testing.TB) actor.Ref[*worlds.Controller] {
	t.Helper()
	var ref actor.Ref[*worlds.Controller]
	require.Eventually(t, func() (ok bool) {
		var err error
		ref, err = worlds.Find(t.Context(), r.client)
		return err == nil
	}, patience, 20*time.Millisecond)
	return ref
}

// machine is a host whose procs are in this process.
type machine struct {
	*host.Host
	leave context.CancelFunc // the world, in good order
	gone  chan struct{}
	said  chan string
}

// host starts one and keeps it in a world.
func (r *rig) host(t testing.TB, label, world string, rank int) *machine {
	t.Helper()
	registry, err := actor.NewRegistry()
	require.NoError(t, err)
	open := func(ctx context.Context, name string) (*bus.Bus, error) {
		return bus.Open(ctx, bus.Options{Server: r.srv, Name: name})
	}
	h, err := host.Start(t.Context(), host.Options{
		Label: label, Bus: bustest.Open(t, r.srv), Settings: agent.BusSettings{URL: r.srv.URL()}, Dir: t.TempDir(), Log: zerolog.Nop(),
		Local: &host.Local{Registry: registry, Open: open},
	})
	require.NoError(t, err)
	info, err := h.Info(t.Context())
	require.NoError(t, err)
	m := &machine{Host: h, gone: make(chan struct{}), said: make(chan string, 64)}
	var ctx context.Context
	ctx, m.leave = context.WithCancel(context.Background())
	joining := worlds.Joining{World: world, Host: &worlds.JoiningHost{ID: h.ID(), Rank: rank, Life: info.Life()}}
	go func() {
		defer close(m.gone)
		worlds.Stay(ctx, h.Proc(), joining, func(_ worlds.Joined, err error) { m.said <- fmt.Sprint(err) })
	}()
	t.Cleanup(func() {
		m.leave()
		<-m.gone
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, h.Close(ctx))
	})
	return m
}

// joined waits until it has.
func (m *machine) joined(t testing.TB) {
	t.Helper()
	for {
		select {
		case said := <-m.said:
			if said == "<nil>" {
				return
			}
		case <-time.After(patience):
			t.Fatal("the host did not join")
		}
	}
}

func spec(name string, extent shape.Extent, perHost int) worlds.Spec {
	return worlds.Spec{Name: name, Shape: extent, PerHost: perHost, Command: agent.Command{Path: agent.Builtin}}
}

func (r *rig) declare(t testing.TB, s worlds.Spec) worlds.Upserted {
	t.Helper()
	return ask(t, r, worlds.Upsert, worlds.Declaration{Spec: s})
}

// ask calls the system controller. A term ends where a busy machine has not renewed its lease for 2 s: the next
// one is asked again, as what a rig asks has the same answer there.
func ask[M, R any](t testing.TB, r *rig, e actor.Endpoint[*worlds.Controller, M, R], m M) (out R) {
	t.Helper()
	for ctx := soon(t); ; {
		out, err := e.Call(ctx, r.system(t), m)
		if !errors.Is(err, actor.ErrNoProc) && !errors.Is(err, actor.ErrStopped) {
			require.NoError(t, err)
			return out
		}
	}
}

func (r *rig) snapshot(t testing.TB, world string) worlds.WorldState {
	t.Helper()
	s := ask(t, r, worlds.Snap, worlds.Filter{Worlds: []string{world}})
	require.Len(t, s.Worlds, 1)
	return s.Worlds[0]
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// runs are the procs of a mesh that a host has and that have not ended: rank.gen of each.
func (r *rig) runs(t testing.TB, m *machine, mesh string) (out []string) {
	t.Helper()
	states, err := agent.Get.Call(soon(t), agent.Of(m.ID().Proc()).Via(r.client), agent.Query{ID: mesh})
	require.NoError(t, err)
	for _, s := range states {
		if !s.Status.Phase.Terminal() {
			out = append(out, fmt.Sprintf("%d.%d", s.Rank, s.Gen))
		}
	}
	return out
}

// pinger posts to an actor of another proc, and reports what comes back.
type pinger struct{ to actor.Ref[*pinger] }

var (
	pingerType = actor.NewType[*pinger, subjects.ProcID]("pinger")
	poke       = actor.NewEndpoint[*pinger, bool, actor.None]("poke")
)

func (g *pinger) poke(ctx *actor.Context, pass bool) (actor.None, error) {
	if !pass {
		return actor.None{}, nil
	}
	return actor.None{}, poke.Post(ctx, g.to, false)
}

func (g *pinger) Undeliverable(ctx *actor.Context, r actor.Returned) error {
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		_ = worlds.Report(work, p, r) // the test waits for what comes of it
		return nil
	})
	return nil
}

// member starts a proc that joins a world of itself.
func (r *rig) member(t testing.TB, id subjects.ProcID) (p *actor.Proc, stop func()) {
	t.Helper()
	registry, err := actor.NewRegistry(pingerType.Made(func(ctx *actor.Context, to subjects.ProcID) (*pinger, error) {
		return &pinger{actor.RefOf[*pinger](to.Actor("pinger")).Via(ctx.Proc())}, nil
	}, poke.By((*pinger).poke)))
	require.NoError(t, err)
	p, err = actor.NewProc(t.Context(), actor.Options{ID: id, Bus: bustest.Open(t, r.srv), Registry: registry})
	require.NoError(t, err)
	stop = sync.OnceFunc(func() { require.NoError(t, p.Close(context.Background())) })
	t.Cleanup(stop)
	return p, stop
}
