package actor

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

// desk is an actor with an open mailbox: every message is the number of a letter.
type desk struct {
	handle func(letter int)
	back   func(letter int)
}

var (
	desks = NewType[*desk, *desk]("desk")
	num   = NewEndpoint[*desk, int, int]("num")
	slice = NewEndpoint[*desk, []int, int]("slice")
	wide  = NewEndpoint[*desk, [4]int, int]("wide")
)

func (d *desk) num(_ *Context, n int) (int, error) {
	d.handle(n)
	return n, nil
}

func (d *desk) slice(ctx *Context, n []int) (int, error) { return d.num(ctx, n[0]) }
func (d *desk) wide(ctx *Context, n [4]int) (int, error) { return d.num(ctx, n[3]) }

// HandleDeadLetter records a dead letter.
func (d *desk) HandleDeadLetter(_ *Context, r DeadLetter) error {
	switch m := r.Message.(type) {
	case int:
		d.back(m)
	case []int:
		d.back(m[0])
	case [4]int:
		d.back(m[3])
	}
	return nil
}

// deskProc is a proc with desks. A failure in it stays alone.
func deskProc(t *testing.T) *Proc {
	t.Helper()
	registry, err := NewRegistry(desks.Define(func(_ *Context, d *desk) (*desk, error) { return d, nil },
		num.Handle((*desk).num), slice.Handle((*desk).slice), wide.Handle((*desk).wide)))
	require.NoError(t, err)
	id, err := subjects.NewHostID("desks")
	require.NoError(t, err)
	p, err := NewProc(t.Context(), Options{
		ID: id.Proc(), Bus: bustest.Open(t, bustest.Server(t)), Registry: registry, Coordinator: func(Event) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

// Looking reports whether the proc checks for actors without a worker.
func (p *Proc) Looking() bool { return p.workers.checkScheduled.Load() }

// byHand is a desk that only the test's goroutine runs.
func byHand(p *Proc, name string, limit int, d *desk) *instance {
	def, _ := p.options.Registry.find("desk")
	return &instance{
		proc: p, def: def, name: name, actor: d, state: running, phase: phaseBetween, constructorCalled: true,
		limit: int32(limit),
	}
}

// sendAs puts a message into a mailbox in one of the existing ways. told receives the fate of an
// awaited message; wake is called when the fate can be read, and is nil for the other ways.
func sendAs(way int, in, from *instance, n int, told func(n int, err error)) (wake func(), err error) {
	switch way {
	case 0:
		err = sent(send(in, num.endpointSpec, queuedMessage[int, int]{m: n, from: from}, 0))
	case 1:
		err = sent(send(in, slice.endpointSpec, queuedMessage[[]int, int]{m: []int{n}, from: from}, 0))
	case 2:
		err = sent(send(in, wide.endpointSpec, queuedMessage[[4]int, int]{m: [4]int{3: n}, from: from}, 0))
	case 3:
		q := in.proc.newLocalRequest(context.Background(), clientName, in.name, "num", n)
		q.Answer = func(_ int, a Answer) { told(n, a.Err) }
		var idle bool
		_, idle, err = in.enqueue(q.Delivery, q)
		if idle {
			in.proc.workers.start(in)
		}
	case 4:
		rp := &reply[int]{}
		rp.ctx.in, rp.waiter = in, in.proc.waiters.get(0)
		err = sent(send(in, slice.endpointSpec,
			queuedMessage[[]int, int]{m: []int{n}, from: from, reply: rp}, 0))
		return func() {
			if rp.state.Load() == waitAnswered {
				told(n, rp.err)
			}
			in.proc.waiters.put(rp.waiter)
		}, err
	}
	return nil, err
}

const ways = 5

// sent is the error of a send.
func sent(_ bool, why *Error) error {
	if why == nil {
		return nil
	}
	return why
}

// clerk compares a mailbox with two lists: the waiting messages, and the taken ones.
type clerk struct {
	*rapid.T
	in, from *instance
	limit    int

	next           int
	waiting, batch []int
	control        int // functions that wait
	stop, over     bool
	ended          bool
	handled, back  []int
	answers        map[int]error
	wakes          []func()
	broke          any // what a function of the actor panicked with: it is the test's
}

// keep hides a panic of the test from the actor.
func (c *clerk) keep() {
	if r := recover(); r != nil {
		c.broke = r
	}
}

// act does one thing to the actor, from a handler or from outside.
func (c *clerk) act() {
	switch c.next++; rapid.IntRange(0, 19).Draw(c.T, "act") {
	case 0:
		if !c.over {
			c.stop = true
		}
		c.in.stop("enough")
	case 1:
		c.in.fail(ending{code: CodeKilled, reason: "killed"})
		c.over = c.over || !c.ended
	case 2, 3:
		ok := c.in.runSoon(func(*Context) {
			defer c.keep()
			require.Positive(c, c.control)
			require.False(c, c.over, "a function ran after the end")
			c.control--
			c.some(2)
		})
		require.Equal(c, !c.over && !c.ended, ok)
		if ok {
			c.control++
		}
	default:
		way, n := rapid.IntRange(0, ways-1).Draw(c.T, "way"), rapid.SampledFrom([]int{1, 1, 1, 2, 9, 40, 200}).
			Draw(c.T, "letters")
		for range n {
			c.send(way)
		}
	}
}

func (c *clerk) some(most int) {
	for range rapid.IntRange(0, most).Draw(c.T, "acts") {
		c.act()
	}
}

func (c *clerk) send(way int) {
	n := c.next
	c.next++
	wake, err := sendAs(way, c.in, c.from, n, func(n int, err error) {
		require.NotContains(c, c.answers, n, "a second answer")
		c.answers[n] = err
		if err != nil {
			c.back = append(c.back, n)
		}
	})
	switch {
	case c.over:
		require.ErrorIs(c, err, ErrFailed)
	case c.stop:
		require.ErrorIs(c, err, ErrStopped)
	case len(c.waiting) >= c.limit:
		require.ErrorIs(c, err, ErrMailboxFull)
	default:
		require.NoError(c, err)
		c.waiting = append(c.waiting, n)
		if wake != nil {
			c.wakes = append(c.wakes, wake)
		}
	}
}

// handle is the handler.
func (c *clerk) handle(n int) {
	defer c.keep()
	require.False(c, c.over, "a handler ran after the end")
	require.Zero(c, c.control, "mail came before a function (ACT-1)")
	if len(c.batch) == 0 {
		c.batch, c.waiting = c.waiting, nil
	}
	require.Equal(c, c.batch[0], n, "out of order")
	c.batch, c.handled = c.batch[1:], append(c.handled, n)
	queued, handled, _ := c.in.load()
	require.Equal(c, len(c.batch)+len(c.waiting), queued)
	require.EqualValues(c, len(c.handled), handled)
	if rapid.IntRange(0, 3).Draw(c.T, "busy") == 0 {
		c.some(2)
	}
}

func TestMailbox_handlesOrReturnsEachMessageInOrder_ACT5(t *testing.T) {
	t.Parallel()
	p := deskProc(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := &clerk{T: rt, limit: rapid.IntRange(1, 300).Draw(rt, "limit"), answers: map[int]error{}}
		c.in = byHand(p, "desk", c.limit, &desk{handle: c.handle})
		c.from = byHand(p, "sender", 1, &desk{back: func(n int) { c.back = append(c.back, n) }})
		for range rapid.IntRange(1, 40).Draw(rt, "turns") {
			c.some(3)
			goOn := c.in.step()
			if c.broke != nil {
				panic(c.broke)
			}
			c.ended = c.in.state.terminal()
			if c.ended {
				require.True(rt, c.over || c.stop)
			}
			if (c.ended || !goOn) && !c.over {
				require.Empty(rt, append(c.batch, c.waiting...), "it ends or rests although there is mail")
				require.Zero(rt, c.control)
			}
			if !c.ended {
				c.in.phase = phaseBetween // also when it rests: it is the test that runs it
			}
		}
		left := append(c.batch, c.waiting...)
		c.in.stopNow("the end")
		c.over = c.over || !c.ended
		for c.in.step() {
		}
		for _, f := range c.from.ensureExtra().control {
			f(&Context{origin: origin{in: c.from}})
		}
		for _, wake := range c.wakes {
			wake()
		}
		require.EqualValues(rt, len(c.handled), c.in.extra.handled)
		slices.Sort(c.back)
		require.True(rt, slices.Equal(left, c.back), "left %v, back %v", left, c.back)
		for n, err := range c.answers {
			require.Equal(rt, err != nil, slices.Contains(left, n))
		}
	})
}

func TestMailbox_concurrentCloseLosesNoMessage_ACT5(t *testing.T) {
	const senders, each = 2, 40
	p := deskProc(t)
	for round := range 400 {
		var fates [senders * each]struct{ refused, handled, back atomic.Int32 }
		var seen atomic.Int32
		handle := func(n int) {
			fates[n].handled.Add(1)
			seen.Add(1)
		}
		back := func(n int) { fates[n].back.Add(1) }
		ref, err := Spawn(t.Context(), p, desks, "desk", &desk{handle: handle}, NoWait())
		require.NoError(t, err)
		from, err := Spawn(t.Context(), p, desks, "sender", &desk{handle: func(int) {}, back: back})
		require.NoError(t, err)
		var wg sync.WaitGroup
		var wakes [senders * each]func()
		for s := range senders {
			wg.Go(func() {
				for n := s * each; n < (s+1)*each; n++ {
					var err error
					wakes[n], err = sendAs(n%ways, ref.in, from.in, n, func(n int, err error) {
						if err != nil {
							back(n)
						}
					})
					if err != nil {
						fates[n].refused.Add(1)
						wakes[n] = nil
					}
				}
			})
		}
		wg.Go(func() { // interrupts batches
			for range 50 {
				ref.in.runSoon(func(*Context) {})
				runtime.Gosched()
			}
		})
		after := rand.Int32N(senders * each)
		for seen.Load() < after {
			runtime.Gosched()
		}
		ref.in.fail(ending{code: CodeKilled, reason: "killed"})
		<-ref.in.ended()
		wg.Wait()
		late := Ref[*desk]{actorRef{id: from.id, via: p, in: from.in}}
		_, err = num.Call(t.Context(), late, 0) // after what came back
		require.NoError(t, err)
		for n := range fates {
			if wakes[n] != nil {
				wakes[n]()
			}
			f := &fates[n]
			require.EqualValues(t, 1, f.refused.Load()+f.handled.Load()+f.back.Load(),
				"round %d, letter %d: %v", round, n, f)
		}
	}
}
