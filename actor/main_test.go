package actor_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	box     = actor.NewType[*Box, int64]("box")
	add     = actor.NewEndpoint[*Box, int64, int64]("add")
	echo    = actor.NewEndpoint[*Box, string, string]("echo")
	fail    = actor.NewEndpoint[*Box, string, actor.None]("fail")
	boom    = actor.NewEndpoint[*Box, string, actor.None]("boom")
	relay   = actor.NewEndpoint[*Box, actor.Ref[*Box], int64]("relay")
	feed    = actor.NewEndpoint[*Box, actor.PortRef[int], int]("feed")
	history = actor.NewEndpoint[*Box, actor.None, []int64]("history")
	big     = actor.NewEndpoint[*Box, int, []byte]("big")
	do      = actor.NewEndpoint[*Box, step, int64]("do")
	absent  = actor.NewEndpoint[*Box, int64, int64]("absent")
	rude    = actor.NewEndpoint[*Box, Rude, Rude]("rude")
)

// step is a message with the code of its handler: it cannot leave the process.
type step func(*actor.Context, *Box) (int64, error)

// Rude is a message with marshalers that panic on request.
type Rude string

func (r Rude) MarshalText() ([]byte, error) {
	if r == "out" {
		panic("rude out")
	}
	return []byte(r), nil
}

func (r *Rude) UnmarshalText(text []byte) error {
	if string(text) == "in" {
		panic("rude in")
	}
	*r = Rude(text)
	return nil
}

// Box is the actor of these tests: it adds, and runs steps.
type Box struct {
	n        int64
	got      []int64
	deferred *actor.Deferred[int64]
	cleanup  func(*actor.Context, error) error
}

func newBox(_ *actor.Context, start int64) (*Box, error) {
	switch start {
	case -1:
		return nil, errors.New("cannot start at -1")
	case -2:
		panic("cannot start at -2")
	}
	return &Box{n: start}, nil
}

func (b *Box) add(_ *actor.Context, n int64) (int64, error) {
	b.n += n
	b.got = append(b.got, n)
	return b.n, nil
}

func (b *Box) echo(_ *actor.Context, s string) (string, error)     { return s, nil }
func (b *Box) history(*actor.Context, actor.None) ([]int64, error) { return b.got, nil }
func (b *Box) fail(_ *actor.Context, why string) (actor.None, error) {
	return actor.None{}, errors.New(why)
}
func (b *Box) boom(_ *actor.Context, why string) (actor.None, error) { panic(why) }
func (b *Box) big(_ *actor.Context, size int) ([]byte, error)        { return make([]byte, size), nil }
func (b *Box) do(ctx *actor.Context, f step) (int64, error)          { return f(ctx, b) }
func (b *Box) rude(_ *actor.Context, r Rude) (Rude, error)           { return r + "t", nil }
func (b *Box) relay(ctx *actor.Context, to actor.Ref[*Box]) (int64, error) {
	return add.Call(ctx, to, 1)
}

func (b *Box) feed(ctx *actor.Context, to actor.PortRef[int]) (int, error) {
	for n := range 5 {
		if err := to.Send(ctx, n); err != nil {
			return n, err
		}
	}
	return 5, nil
}

// Cleanup runs the test's function.
func (b *Box) Cleanup(ctx *actor.Context, cause error) error {
	if b.cleanup == nil {
		return nil
	}
	return b.cleanup(ctx, cause)
}

func boxes() actor.Def {
	return box.Define(newBox, add.Handle((*Box).add), echo.Handle((*Box).echo), fail.Handle((*Box).fail),
		boom.Handle((*Box).boom),
		relay.Handle((*Box).relay), feed.Handle((*Box).feed), history.Handle((*Box).history),
		big.Handle((*Box).big), do.Handle((*Box).do),
		rude.Handle((*Box).rude))
}

// start gives a test a proc with connections of its own; it is closed when the test ends.
func start(t testing.TB, srv *embed.Server, label string, defs ...actor.Def) *actor.Proc {
	t.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(t, err)
	return startAs(t, srv, id.Proc(), defs...)
}

func startAs(t testing.TB, srv *embed.Server, id subjects.ProcID, defs ...actor.Def) *actor.Proc {
	t.Helper()
	registry, err := actor.NewRegistry(append(defs, boxes())...)
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: id, Bus: bustest.Open(t, srv), Registry: registry,
		Coordinator: func(actor.Event) {}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
	return p
}

// alone is a proc on a server of its own.
func alone(t testing.TB, defs ...actor.Def) *actor.Proc {
	t.Helper()
	return start(t, bustest.Server(t), "alone", defs...)
}

// two are procs on one server.
func two(t testing.TB) (a, b *actor.Proc) {
	t.Helper()
	srv := bustest.Server(t)
	return start(t, srv, "left"), start(t, srv, "right")
}

func spawn(t testing.TB, p *actor.Proc) actor.Ref[*Box] {
	t.Helper()
	ref, err := actor.Spawn(t.Context(), p, box, "box", 0)
	require.NoError(t, err)
	return ref
}

// events are the emitted events of a proc.
type events struct {
	mu  sync.Mutex
	all []actor.Event
}

func record(p *actor.Proc) *events {
	es := &events{}
	p.Observe(func(e actor.Event) {
		es.mu.Lock()
		defer es.mu.Unlock()
		es.all = append(es.all, e)
	})
	return es
}

// place is where a panic is in the code, as its text has it.
var place = regexp.MustCompile(` \(actor/\w+\.go:\d+(, from actor/\w+\.go:\d+){0,3}\)`)

// of lists the statuses of one actor, in order.
func (es *events) of(name string) []string {
	es.mu.Lock()
	defer es.mu.Unlock()
	var out []string
	for _, e := range es.all {
		if e.Actor == name {
			out = append(out, e.Status)
		}
	}
	return out
}

// blocked makes an actor busy until the returned function is called.
func blocked(t testing.TB, ref actor.Ref[*Box]) (release func()) {
	t.Helper()
	entered, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, do.Send(t.Context(), ref, func(*actor.Context, *Box) (int64, error) {
		close(entered)
		<-gate
		return 0, nil
	}))
	testkit.Next(t, entered)
	return sync.OnceFunc(func() { close(gate) })
}

func asError(t testing.TB, err error) *actor.Error {
	t.Helper()
	e, ok := errors.AsType[*actor.Error](err)
	require.True(t, ok, "want an *actor.Error, got %v", err)
	return e
}

// lasted fails the test unless want has passed, except for the checks of the workers.
func lasted(t testing.TB, want time.Duration, began time.Time) {
	t.Helper()
	require.Equal(t, want, time.Since(began).Truncate(time.Millisecond))
}
