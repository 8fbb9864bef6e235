package actor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
)

// bubbled is a test in a bubble, without a deadline.
type bubbled struct{ rapid.TB }

// order is a message to the actor of the state machine: its task, and its fate.
type order struct {
	n      int
	what   string
	asked  bool          // somebody waits for the answer
	answer chan error    // holds what he was told
	gate   chan struct{} // what the handler waits for, when it is to block
	open   func()        // lets it go
	late   *actor.Deferred[int64]

	settled bool // the model: he is told by now
	want    error
}

// tamed is one actor and a model of its life. Between two commands everything is at rest, so the
// model is exact.
type tamed struct {
	*rapid.T
	p     *actor.Proc
	ref   actor.Ref[*Box]
	es    *events
	seen  []int        // what was handled
	ran   atomic.Int64 // tasks and timers
	downs []actor.Down
	kids  []actor.Ref[*Box]

	limit          int // what follows is the model
	orders         []*order
	waiting, batch []*order
	handled        []int
	holds          *order   // whose handler is blocked
	open           []*order // whose answers were deferred
	due, timers    int64    // tasks and timers that are to have run, and timers that are set
	orphaned       bool     // a child has failed
	stop, over     bool     // it was told to end, and to handle nothing more
	status         actor.Status
	monitors       int
	bounced        uint64 // posts that came back
}

var errOrder = errors.New("as it was told")

// obey is the actor's handler.
func (m *tamed) obey(o *order) step {
	return func(ctx *actor.Context, _ *Box) (n int64, err error) {
		m.seen = append(m.seen, o.n)
		count := func(*actor.Context) { m.ran.Add(1) }
		switch o.what {
		case "error":
			return 0, errOrder
		case "panic":
			panic("as it was told")
		case "stop":
			ctx.Stop("as it was told")
		case "block":
			<-o.gate
		case "defer":
			o.late = actor.Defer[int64](ctx)
		case "go":
			ctx.Go(func(context.Context) func(*actor.Context) { return count })
		case "after":
			ctx.After(time.Second, count)
		case "child":
			var kid actor.Ref[*Box]
			kid, err = actor.SpawnChild(ctx, box, "kid", 0)
			m.kids = append(m.kids, kid)
		}
		return int64(o.n), err
	}
}

// send gives an order. The model predicts whether it is accepted.
func (m *tamed) send(what string, asked bool) {
	o := &order{n: len(m.orders), what: what, asked: asked, answer: make(chan error, 1),
		gate: make(chan struct{})}
	o.open = sync.OnceFunc(func() { close(o.gate) })
	m.orders = append(m.orders, o)
	switch {
	case m.over || m.status == actor.Failed:
		o.settle(actor.ErrFailed)
	case m.stop:
		o.settle(actor.ErrStopped)
	case len(m.waiting) >= m.limit:
		o.settle(actor.ErrMailboxFull)
	default:
		m.waiting = append(m.waiting, o)
	}
	if !asked {
		require.ErrorIs(m, do.Send(context.Background(), m.ref, m.obey(o)), o.want)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		defer cancel()
		n, err := do.Call(ctx, m.ref, m.obey(o))
		if err == nil && o.what != "defer" && n != int64(o.n) {
			err = errors.New("the answer of somebody else")
		}
		o.answer <- err
	}()
}

func (o *order) settle(err error) { o.settled, o.want = true, err }

// live applies all pending actions to the model.
func (m *tamed) live() {
	for !m.status.Terminal() && m.holds == nil {
		if m.orphaned {
			m.fail()
		}
		if len(m.batch) == 0 {
			m.batch, m.waiting = m.waiting, nil
		}
		switch {
		case m.over:
			m.end(actor.Failed, actor.ErrFailed)
		case len(m.batch) > 0:
			o := m.batch[0]
			m.batch = m.batch[1:]
			m.handle(o)
		case m.stop:
			m.end(actor.Stopped, actor.ErrStopped)
		default:
			return
		}
	}
}

func (m *tamed) handle(o *order) {
	m.handled = append(m.handled, o.n)
	switch o.what {
	case "error":
		o.settle(errOrder)
		if !o.asked {
			m.fail()
		}
		return
	case "panic":
		o.settle(actor.ErrPanic)
		m.fail()
		return
	case "block":
		m.holds = o
		return
	case "defer":
		m.open = append(m.open, o)
		return
	case "stop":
		m.stop = true
	case "go":
		m.due++
	case "after":
		m.timers++
	}
	o.settle(nil)
}

// fail ends the actor of the model: its waiting messages come back.
func (m *tamed) fail() {
	if m.over || m.status.Terminal() {
		return
	}
	m.over = true
	for _, o := range append(m.batch, m.waiting...) {
		if o.settle(actor.ErrFailed); !o.asked {
			m.bounced++
		}
	}
	m.batch, m.waiting = nil, nil
}

func (m *tamed) end(s actor.Status, why error) {
	m.status = s
	for _, o := range m.open {
		o.settle(why)
	}
	m.open, m.kids, m.timers = nil, nil, 0
}

// check compares the actor with the model.
func (m *tamed) check() {
	synctest.Wait()
	m.live()
	require.Equal(m, m.handled, append([]int{}, m.seen...))
	for _, o := range m.orders {
		if !o.asked {
			continue
		}
		require.Equal(m, o.settled, len(o.answer) == 1, "order %d (%s)", o.n, o.what)
		if !o.settled {
			continue
		}
		err := <-o.answer
		require.ErrorIs(m, err, o.want, "order %d (%s)", o.n, o.what)
		o.answer <- err
	}
	life, status := []string{"running"}, m.status
	if m.status.Terminal() {
		life = append(life, string(m.status))
	} else if m.stop || m.over {
		status = actor.Stopping
	}
	require.Equal(m, life, m.es.of(m.ref.ID().Name), "one terminal event (ACT-3)")
	info, _ := m.p.Actor(m.ref.ID().Name)
	require.Equal(m, status, info.Status)
	require.Equal(m, len(m.batch)+len(m.waiting), info.Queued)
	require.EqualValues(m, len(m.handled), info.Handled)
	require.Equal(m, m.bounced, m.p.Stats().Bounced)
	require.LessOrEqual(m, m.ran.Load(), m.due)
	if status == actor.Running && m.holds == nil {
		require.Equal(m, m.due, m.ran.Load())
	}
	if m.status.Terminal() {
		require.Len(m, m.downs, m.monitors, "one Down each (ACT-8)")
	} else {
		require.Empty(m, m.downs)
	}
}

var orders = []string{"add", "add", "error", "panic", "stop", "block", "block", "defer", "go",
	"after", "child"}

func (m *tamed) commands() map[string]func(*rapid.T) {
	name := m.ref.ID().Name
	return map[string]func(*rapid.T){
		"":     func(*rapid.T) { m.check() },
		"post": func(t *rapid.T) { m.send(rapid.SampledFrom(orders).Draw(t, "what"), false) },
		"call": func(t *rapid.T) { m.send(rapid.SampledFrom(orders).Draw(t, "what"), true) },
		"many": func(*rapid.T) {
			for range m.limit {
				m.send("add", false)
				synctest.Wait()
				m.live()
			}
		},
		"block": func(*rapid.T) { m.send("block", true) },
		"release": func(t *rapid.T) {
			if m.holds == nil {
				t.Skip("nothing is blocked")
			}
			m.holds.open()
			m.holds.settle(nil)
			m.holds = nil
		},
		"reply": func(t *rapid.T) {
			if len(m.open) == 0 {
				t.Skip("nothing is open")
			}
			o := m.open[0]
			m.open = m.open[1:]
			o.late.Reply(0, nil)
			o.late.Reply(0, errOrder) // the first counts
			o.settle(nil)
		},
		"sleep": func(*rapid.T) {
			time.Sleep(time.Second)
			m.due, m.timers = m.due+m.timers, 0
		},
		"stop": func(*rapid.T) {
			m.stop = true
			m.p.StopActor(name, "as it was told")
		},
		"kill": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				t.Skip("lives are to be long")
			}
			m.fail()
			m.p.KillActor(name, "as it was told")
		},
		"child fails": func(t *rapid.T) {
			if len(m.kids) == 0 || m.over {
				t.Skip("there is none")
			}
			require.NoError(m, boom.Send(context.Background(), m.kids[0], "as it was told"))
			m.kids, m.orphaned = m.kids[1:], true
		},
		"child stops": func(t *rapid.T) {
			if len(m.kids) == 0 || m.over {
				t.Skip("there is none")
			}
			m.p.StopActor(m.kids[0].ID().Name, "as it was told")
			m.kids = m.kids[1:]
		},
		"monitor": func(*rapid.T) {
			m.monitors++
			_, err := m.p.Monitor(m.ref.ID(), func(d actor.Down) { m.downs = append(m.downs, d) })
			require.NoError(m, err)
		},
	}
}

func TestActor_followsItsLifecycleModel_ACT3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		es := record(p)
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			m := &tamed{
				T: rt, p: p, es: es, limit: rapid.IntRange(1, 4).Draw(rt, "limit"), handled: []int{},
				status: actor.Running, bounced: p.Stats().Bounced,
			}
			var err error
			m.ref, err = actor.Spawn(t.Context(), p, box, "box", 0, actor.Mailbox(m.limit))
			require.NoError(rt, err)
			defer func() { // also when the test has failed
				p.KillActor(m.ref.ID().Name, "the end")
				for _, o := range m.orders {
					o.open()
				}
			}()
			rt.Repeat(m.commands())
		})
		synctest.Wait()
	})
}

func TestSupervisor_countsAFailureBeforeAStopRequest_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		kid := child(t, parent, actor.RestartPolicy{})
		release := blocked(t, parent)
		require.NoError(t, boom.Send(t.Context(), kid, "nobody else can know"))
		synctest.Wait()
		p.StopActor(kid.ID().Name, "too late")
		release()
		synctest.Wait()
		require.Equal(t, actor.Failed, status(t, p, parent))
	})
}
