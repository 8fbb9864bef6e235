package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// zoo is a set of actors under load from many goroutines, and the expected results.
type zoo struct {
	p     *actor.Proc
	born  atomic.Int64
	steps atomic.Int64

	sent, handled, refused atomic.Int64 // posts
	monitors, downs        atomic.Int64 // of the client
	answers                atomic.Int64 // calls that were answered

	mu     sync.Mutex // guards the fields below
	wrong  []string
	lives  map[string]*life // by name: actors whose constructor was called
	newest []*life
	ended  map[string]int // terminal events
}

// life is the zoo's record of one actor.
type life struct {
	z        *zoo
	n        int64 // actors wait for younger ones only, so nobody waits for himself
	ref      actor.Ref[*beast]
	parent   *life
	inside   atomic.Int64
	terminal atomic.Bool
	children []string // guarded by the lock of zoo
}

// beast is an actor of the zoo.
type beast struct {
	*life
	last map[any]int64 // the newest message of each sender (DEL-3)
	sent int64
}

// restartChain is the birthplace of a beast.
type restartChain struct {
	z      *zoo
	parent *life
}

// deed is the task of a beast.
type deed struct {
	what string
	from any
	n    int64 // counts the messages of the sender
	dice uint64
	post *atomic.Int32 // counts its fates; nil: somebody waits
}

var (
	beasts = actor.NewType[*beast, restartChain]("beast")
	act    = actor.NewEndpoint[*beast, deed, int64]("act")
	pat    = actor.NewEndpoint[*beast, deed, int64]("pat") // the same by another lane
)

func (z *zoo) complain(format string, args ...any) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.wrong) < 20 {
		z.wrong = append(z.wrong, fmt.Sprintf(format, args...))
	}
}

func newBeast(ctx *actor.Context, at restartChain) (*beast, error) {
	z := at.z
	l := &life{z: z, n: z.born.Add(1), ref: actor.Self[*beast](ctx), parent: at.parent}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lives[ctx.Self().Name] = l
	z.newest = append(z.newest, l)
	if at.parent != nil {
		at.parent.children = append(at.parent.children, ctx.Self().Name)
	}
	if l.n%50 == 0 {
		return nil, errors.New("stillborn")
	}
	return &beast{life: l, last: map[any]int64{}}, nil
}

// turn checks ACT-1 and ACT-3 from the inside.
func (l *life) turn() (over func()) {
	if l.inside.Add(1) != 1 {
		l.z.complain("%s: two goroutines", l.ref)
	}
	if l.terminal.Load() {
		l.z.complain("%s: handles after its end", l.ref)
	}
	return func() { l.inside.Add(-1) }
}

func (b *beast) act(ctx *actor.Context, d deed) (int64, error) {
	defer b.turn()()
	if last := b.last[d.from]; last >= d.n {
		b.z.complain("%s: %d of %v after %d", b.ref, d.n, d.from, last)
	}
	b.last[d.from] = d.n
	if d.post != nil {
		b.z.handled.Add(1)
		if d.post.Add(1) != 1 {
			b.z.complain("%s: a post has two fates", b.ref)
		}
	}
	return b.do(ctx, d)
}

func (b *beast) do(ctx *actor.Context, d deed) (int64, error) {
	r := rand.New(rand.NewPCG(d.dice, 7))
	switch d.what {
	case "panic":
		panic("random")
	case "error":
		return 0, errors.New("random")
	case "stop":
		ctx.Stop("random")
	case "defer":
		answer := actor.Defer[int64](ctx)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			return func(*actor.Context) {
				defer b.turn()()
				answer.Reply(1, work.Err())
			}
		})
	case "later":
		answer := actor.Defer[int64](ctx)
		ctx.After(time.Duration(r.IntN(1000))*time.Microsecond, func(*actor.Context) {
			defer b.turn()()
			answer.Reply(1, nil)
		})
	case "child":
		opts := []actor.Option{actor.WithRestartPolicy(someRestart(r)), actor.Mailbox(8)}
		if r.IntN(2) == 0 {
			opts = append(opts, actor.NoWait())
		}
		ref, err := actor.SpawnChild(ctx, beasts, "child", restartChain{b.z, b.life}, opts...)
		if err == nil {
			b.z.mu.Lock()
			b.children = append(b.children, ref.ID().Name)
			b.z.mu.Unlock()
		}
	case "tell":
		for range 1 + r.IntN(20) { // at times more than wait for its own worker
			b.sent++
			b.z.post(ctx, b.z.pick(r), b.life, b.sent, r, "")
		}
	case "ask":
		if to := b.z.pick(r); to != nil && to.n > b.n {
			b.sent++
			b.z.call(ctx, to, b.life, b.sent, r, "")
		}
	case "monitor":
		if to := b.z.pick(r); to != nil {
			var once atomic.Bool
			_, err := ctx.Monitor(to.ref.ID(), func(*actor.Context, actor.Down) {
				defer b.turn()()
				if once.Swap(true) {
					b.z.complain("%s: two Downs", b.ref)
				}
			})
			return 0, err
		}
	case "link":
		if to := b.z.pick(r); to != nil && to != b.life {
			return 0, ctx.Link(to.ref.ID())
		}
	}
	return 0, nil
}

func someRestart(r *rand.Rand) actor.RestartPolicy {
	return actor.RestartPolicy{
		Restart:     []actor.Restart{actor.Propagate, actor.Temporary, actor.Transient, actor.Permanent}[r.IntN(4)],
		MaxRestarts: 2,
		Backoff:     time.Duration(r.IntN(2)) * time.Millisecond, MaxBackoff: time.Millisecond,
	}
}

// pick returns one of the newest actors, dead or alive; nil when there is none.
func (z *zoo) pick(r *rand.Rand) *life {
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.newest) == 0 {
		return nil
	}
	return z.newest[max(0, len(z.newest)-1-r.IntN(40))]
}

func (z *zoo) lane(r *rand.Rand) actor.Endpoint[*beast, deed, int64] {
	if r.IntN(3) == 0 {
		return pat
	}
	return act
}

func (z *zoo) post(ctx context.Context, to *life, from any, n int64, r *rand.Rand, what string) {
	if to == nil {
		return
	}
	d := deed{what: what, from: from, n: n, dice: r.Uint64(), post: new(atomic.Int32)}
	z.sent.Add(1)
	if err := z.lane(r).Send(ctx, to.ref, d); err != nil {
		z.refused.Add(1)
		if d.post.Add(1) != 1 {
			z.complain("%s: refused and handled", to.ref)
		}
		z.check(err)
	}
}

func (z *zoo) call(ctx context.Context, to *life, from any, n int64, r *rand.Rand, what string) {
	_, err := z.lane(r).Call(ctx, to.ref, deed{what: what, from: from, n: n, dice: r.Uint64()})
	z.answers.Add(1)
	z.check(err)
}

func (z *zoo) check(err error) {
	if _, ok := errors.AsType[*actor.Error](err); err != nil && !ok {
		z.complain("not an *actor.Error: %v", err)
	}
	if errors.Is(err, actor.ErrDeadline) {
		z.complain("it waited for the deadline: %v", err)
	}
}

// recordEvent receives the terminal events.
func (z *zoo) recordEvent(e actor.Event) {
	if !e.Terminal() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ended[e.Actor]++
	l := z.lives[e.Actor]
	if l == nil {
		return
	}
	l.terminal.Store(true)
	if n := l.inside.Load(); n != 0 {
		z.wrong = append(z.wrong, fmt.Sprintf("%s: its end comes while it handles", l.ref))
	}
	for _, child := range l.children {
		if z.ended[child] == 0 {
			z.wrong = append(z.wrong, fmt.Sprintf("%s: its end comes before that of its child %s", l.ref, child))
		}
	}
}

var deeds = []string{
	"", "", "", "", "", "", "", "", "", "", "", "", "defer", "later", "child", "child", "tell", "tell",
	"tell", "ask", "ask",
	"monitor", "link", "stop", "panic", "error",
}

// step takes one random action as the w-th client.
func (z *zoo) step(ctx context.Context, w int, n int64, r *rand.Rand) {
	l, dice := z.pick(r), r.IntN(100)
	what := deeds[r.IntN(len(deeds))]
	switch {
	case l == nil || dice < 4:
		opts := []actor.Option{actor.WithRestartPolicy(someRestart(r)),
			actor.WithStrategy(actor.Strategy(r.IntN(3)))}
		if r.IntN(2) == 0 {
			opts = append(opts, actor.NoWait())
		}
		_, _ = actor.Spawn(ctx, z.p, beasts, "beast", restartChain{z: z}, opts...)
	case dice < 70:
		z.post(ctx, l, w, n, r, what)
	case dice < 95:
		z.call(ctx, l, w, n, r, what)
	case dice < 97:
		z.p.StopActor(l.ref.ID().Name, "random")
	case dice < 98:
		z.p.KillActor(l.ref.ID().Name, "random")
	default:
		z.monitors.Add(1)
		_, err := z.p.Monitor(l.ref.ID(), func(actor.Down) { z.downs.Add(1) })
		z.check(err)
	}
}

func TestModel_actorsEndOnceAndMessagesHaveOneFate_ACT3(t *testing.T) {
	t.Parallel()
	workers, steps := 4, int64(1_000_000)
	if raceEnabled || !testkit.Long() {
		steps = 100_000
	}
	p := start(t, bustest.Server(t), "zoo",
		beasts.Define(newBeast, act.Handle((*beast).act), pat.Handle((*beast).act)))
	z := &zoo{p: p, lives: map[string]*life{}, ended: map[string]int{}}
	p.Observe(z.recordEvent)
	var wg sync.WaitGroup
	nearly := make(chan struct{})
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 42))
			for n := range steps / int64(workers) {
				if z.steps.Add(1) == steps-steps/20 { // the end comes while others are at it
					close(nearly)
				}
				z.step(t.Context(), w, n+1, r)
			}
		})
	}
	<-nearly
	ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patience)
	defer cancel()
	require.NoError(t, p.Close(ctx))
	wg.Wait()

	require.Empty(t, z.wrong)
	require.Greater(t, len(z.ended), len(z.newest)/2)
	for name, n := range z.ended {
		require.Equal(t, 1, n, "%s has one terminal event", name)
	}
	for name := range z.lives {
		require.NotZero(t, z.ended[name], name) // require.Contains would look at each of them
	}
	bounced := int64(p.Stats().Bounced)
	require.Equal(t, z.sent.Load(), z.handled.Load()+z.refused.Load()+bounced,
		"posts: %d handled, %d refused, %d returned", z.handled.Load(), z.refused.Load(), bounced)
	require.Equal(t, z.monitors.Load(), z.downs.Load())
	require.NotZero(t, z.answers.Load())
	require.NotZero(t, bounced)
}
