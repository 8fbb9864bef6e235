package actor_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

// life is what a random test knows of one actor.
type life struct {
	ref      actor.Ref[*Box]
	running  atomic.Int64 // handlers inside it
	terminal atomic.Int64 // terminal events
	late     atomic.Bool  // a handler ran after the end, or two at a time
}

// zoo is a set of actors that many goroutines torment.
type zoo struct {
	p    *actor.Proc
	mu   sync.Mutex
	all  map[string]*life
	live []*life
}

func (z *zoo) add(l *life) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.all[l.ref.ID().Name] = l
	z.live = append(z.live, l)
}

// pick returns one of the newest actors, dead or alive.
func (z *zoo) pick(r *rand.Rand) *life {
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.live) == 0 {
		return nil
	}
	return z.live[max(0, len(z.live)-1-r.IntN(40))]
}

// visit is a handler that watches ACT-1 and ACT-3.
func (l *life) visit(end string) step {
	return func(ctx *actor.Context, _ *Box) (int64, error) {
		if l.running.Add(1) != 1 || l.terminal.Load() > 0 {
			l.late.Store(true)
		}
		defer l.running.Add(-1)
		switch end {
		case "panic":
			panic("random")
		case "stop":
			ctx.Stop("random")
		case "defer":
			answer := actor.Defer[int64](ctx)
			ctx.Go(func(work context.Context) func(*actor.Context) {
				return func(*actor.Context) { answer.Reply(1, work.Err()) }
			})
		}
		return 0, nil
	}
}

func TestACT3_whateverHappensEachActorHasOneTerminalEvent(t *testing.T) {
	const workers, steps = 4, 25_000
	p := alone(t)
	z := &zoo{p: p, all: map[string]*life{}}
	var early sync.Map // terminal events of actors whose spawn has not returned yet
	p.Observe(func(e actor.Event) {
		if !e.Terminal() {
			return
		}
		n, _ := early.LoadOrStore(e.Actor, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		z.mu.Lock()
		l := z.all[e.Actor]
		z.mu.Unlock()
		if l != nil {
			l.terminal.Add(1)
		}
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 42))
			for range steps {
				z.step(t, r)
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Close(soon(t)))
	ended := 0
	early.Range(func(name, n any) bool {
		ended++
		require.EqualValues(t, 1, n.(*atomic.Int64).Load(), "%s", name)
		return true
	})
	require.Equal(t, len(z.all), ended)
	for name, l := range z.all {
		require.False(t, l.late.Load(), name)
	}
}

// step does one random thing.
func (z *zoo) step(t *testing.T, r *rand.Rand) {
	l := z.pick(r)
	dice := r.IntN(100)
	if l == nil || dice < 5 {
		ref, err := actor.Spawn(t.Context(), z.p, box, "box", 0)
		require.NoError(t, err)
		z.add(&life{ref: ref})
		return
	}
	var err error
	switch {
	case dice < 75:
		err = do.Post(t.Context(), l.ref, l.visit(""))
	case dice < 85:
		_, err = do.Call(t.Context(), l.ref, l.visit(""))
	case dice < 90:
		_, err = do.Call(t.Context(), l.ref, l.visit("defer"))
	case dice < 93:
		_, err = do.Call(t.Context(), l.ref, l.visit("stop"))
	case dice < 95:
		_, err = do.Call(t.Context(), l.ref, l.visit("panic"))
	case dice < 97:
		err = fail.Post(t.Context(), l.ref, "random")
	default:
		z.p.StopActor(l.ref.ID().Name, "random")
	}
	if err != nil {
		asError(t, err)
	}
}
