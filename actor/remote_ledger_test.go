package actor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// entry is a numbered message of a sender to one actor.
type entry struct {
	By  string
	N   int
	Pad []byte
}

var (
	ledger = actor.NewType[*Ledger, *pages]("ledger")
	enter  = actor.NewEndpoint[*Ledger, entry, int]("enter")
	linger = actor.NewEndpoint[*Ledger, int, int]("linger") // until nobody waits for its answer
	later  = actor.NewEndpoint[*Ledger, int, int]("later")  // likewise, off its turn
)

// Ledger is an actor that records its messages for a test to read.
type Ledger struct{ *pages }

// pages are the records of a Ledger.
type pages struct {
	gaps bool // messages may be missing, but not come too late

	mu    sync.Mutex
	gate  chan struct{} // closed when it may go on; nil: it may
	held  bool          // it waits at the gate
	next  map[string]int
	n     int
	wrong []string
	began chan int // a linger has begun
	ended chan error
}

func newPages() *pages {
	return &pages{next: map[string]int{}, began: make(chan int, 100), ended: make(chan error, 100)}
}

func (l *Ledger) enter(_ *actor.Context, e entry) (int, error) {
	l.await()
	if e.By == bomb {
		panic(bomb)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if want := l.next[e.By]; e.N != want && !(l.gaps && e.N > want) {
		l.wrong = append(l.wrong, fmt.Sprintf("%d of %s came where %d should", e.N, e.By, want))
	}
	l.next[e.By] = e.N + 1
	l.n++
	return e.N, nil
}

func (l *Ledger) linger(ctx *actor.Context, n int) (int, error) {
	l.began <- n
	<-ctx.Done()
	l.ended <- context.Cause(ctx)
	l.await()
	return n, nil
}

func (l *Ledger) later(ctx *actor.Context, n int) (int, error) {
	actor.Defer[int](ctx).OnCancel(func() { l.ended <- nil })
	l.began <- n
	return n, nil
}

// await waits until the Ledger may go on.
func (p *pages) await() {
	p.mu.Lock()
	gate := p.gate
	p.held = gate != nil
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (p *pages) isHeld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// shut makes the Ledger wait with its next entry, and with the answer of a linger.
func (p *pages) shut() (open func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = gate
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gate = nil
		close(gate)
	})
}

func (p *pages) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// inOrder requires that no message came out of turn.
func (p *pages) inOrder(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.wrong)
}

func ledgers() actor.Def {
	return ledger.Define(func(_ *actor.Context, p *pages) (*Ledger, error) { return &Ledger{p}, nil },
		enter.Handle((*Ledger).enter), linger.Handle((*Ledger).linger), later.Handle((*Ledger).later))
}

// newLedger spawns a Ledger and returns its Ref for another proc.
func newLedger(t testing.TB, on, from *actor.Proc, opts ...actor.Option) (actor.Ref[*Ledger], *pages) {
	t.Helper()
	p := newPages()
	ref, err := actor.Spawn(t.Context(), on, ledger, "ledger", p, opts...)
	require.NoError(t, err)
	return actor.RefOf[*Ledger](ref.ID()).Via(from), p
}

// pair are two procs with ledgers and mailers.
func pair(t testing.TB) (a, b *actor.Proc) {
	t.Helper()
	srv := bustest.Server(t)
	return start(t, srv, "left", ledgers(), mailers()), start(t, srv, "right", ledgers(), mailers())
}

// limited is a pair with a bound on the bytes of a message.
func limited(t testing.TB, most int) (a, b *actor.Proc) {
	t.Helper()
	srv, cfg := bustest.Server(t), link.Config{MaxMessage: most}
	return startOn(t, bustest.Open(t, srv), newHost(t, "left").Proc(), cfg, ledgers()),
		startOn(t, bustest.Open(t, srv), newHost(t, "right").Proc(), cfg, ledgers())
}

// startOn gives a test a proc on a bus, with bounds of its own.
func startOn(t testing.TB, b *bus.Bus, id subjects.ProcID, cfg link.Config, defs ...actor.Def) *actor.Proc {
	t.Helper()
	registry, err := actor.NewRegistry(append(defs, boxes())...)
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{
		ID: id, Bus: b, Registry: registry, Coordinator: func(actor.Event) {}, Links: cfg,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
	return p
}

func newHost(t testing.TB, label string) subjects.HostID {
	t.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(t, err)
	return id
}

// listen starts a server behind an address.
func listen(t testing.TB, at *bustest.Address) *embed.Server {
	t.Helper()
	srv, err := embed.Start(testkit.Soon(t), embed.Options{})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	at.Serve(srv)
	return srv
}

// dial connects to an address over a socket.
func dial(t testing.TB, at *bustest.Address) *bus.Bus {
	t.Helper()
	return bustest.Open(t, nil, func(o *bus.Options) { o.Server, o.URL = nil, at.URL() })
}

// queued counts the waiting messages of an actor.
func queued(p *actor.Proc, name string) int {
	i, known := p.Actor(name)
	if !known {
		return -1
	}
	return i.Queued
}

// deafen stops the data pump of a proc until the returned function is called.
func deafen(t testing.TB, p, by *actor.Proc) (hear func()) {
	t.Helper()
	entered, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	actor.OpenRaw(p, "deaf", "in", func(actor.Incoming) {
		once.Do(func() { close(entered) })
		<-gate
	})
	at := portAt[int](t, p.ID().Actor("deaf").Port("in"))
	require.NoError(t, at.Via(by).Send(t.Context(), 1))
	testkit.Next(t, entered)
	hear = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(hear)
	return hear
}
