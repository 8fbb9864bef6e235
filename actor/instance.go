package actor

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Status is where an actor is in its life. It only advances.
type Status string

const (
	Initializing Status = "initializing" // its constructor has not returned
	Running      Status = "running"
	Stopping     Status = "stopping" // accepts nothing new; it may be about to fail
	Stopped      Status = "stopped"  // terminal: it was asked to
	Failed       Status = "failed"   // terminal: see Event
)

// Terminal reports whether the actor is gone.
func (s Status) Terminal() bool { return s == Stopped || s == Failed }

// state is a Status in one byte, in the order of a life.
type state uint8

const (
	initializing state = iota
	running
	stopping
	stopped
	failed
)

func (s state) terminal() bool { return s >= stopped }

func (s state) status() Status {
	return [...]Status{Initializing, Running, Stopping, Stopped, Failed}[s]
}

// phase is what the goroutine that runs an actor is at.
type phase uint8

const (
	resting  phase = iota // none runs it
	between               // it looks what there is to do
	handling              // the batch
	inside                // a function of the control lane
)

// instance is one actor: its mailbox and the goroutine that runs it while there is work (ACT-1).
//
//	send, deliver ─┐
//	post ──────────┼─ steps (of a worker, while there is work)
//	stop ──────────┤     ├─ over: finish, terminate, at once
//	fail ──────────┘     ├─ control: the constructor, results of tasks, ends of children
//	                     ├─ mail: handle a batch, or what is left of one
//	                     └─ nothing left and asked to stop: finish, terminate
type instance struct {
	proc   *Proc
	def    *Def
	name   string
	parent *instance // nil: the proc is
	birth  *birth    // how it came to be; nil once nobody will want to know

	actor   any                    // the turn's
	turning *Context               // the turn's: of what runs
	worker  atomic.Pointer[worker] // who runs it, or did last

	mu        sync.Mutex // guards what follows, and what mailbox says of itself
	state     state
	phase     phase
	begun     bool // its constructor was called
	over      bool // nothing more is handled
	winding   bool // it is wound up: it takes in no more children
	failed    bool // it ends as Failed
	closed    bool // its terminal event is out
	ported    bool // it has opened ports
	onRequest bool // somebody else asked it to stop
	late      bool // somebody asked it to stop when it was ending otherwise
	grouped   bool // its parent asked it to stop, and will start it again
	born      bool // whoever spawned it was told what became of its constructor
	crash     bool // the turn's: a handler did not return
	strategy  Strategy
	limit     int32
	nth       int32 // how many of its name this proc had before it, as far as it remembers
	announced bool  // its end is published
	greets    bool  // and that it runs
	box       *mailbox
	rare      *rare
}

// rare is what most actors have no use for most of the time. The instance's lock guards it.
type rare struct {
	control  []func(*Context)
	end      ending
	life     context.Context
	giveUp   context.CancelCauseFunc
	tasks    group
	alarms   map[*alarm]struct{}
	debts    map[debt]struct{}
	done     chan struct{} // closed after the terminal event
	watches  map[*watch]struct{}
	links    map[subjects.ActorID]struct{}
	returned int           // messages that came back and that it has not heard of
	hurry    chan struct{} // closed when it is killed while it waits for its children; nil: it does not
	place    *place        // who took its place; nil: nobody, and it took nobody's
	failure  *Event        // the last of a child
	handled  uint64        // messages, when the mailbox is gone
	family   *family
}

// plain reports whether nothing is to be wound up. The lock is held.
func (r *rare) plain() bool {
	return r == nil || r.life == nil && r.family == nil && r.tasks.n.Load() == 0 &&
		len(r.alarms)+len(r.debts)+len(r.watches) == 0
}

// rarely returns the rare part. The lock is held.
func (in *instance) rarely() *rare {
	if in.rare == nil {
		in.rare = &rare{}
	}
	return in.rare
}

func (in *instance) status() Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.status()
}

func (in *instance) id() subjects.ActorID { return in.proc.id.Actor(in.name) }

func (in *instance) log() zerolog.Logger { return in.proc.log.With().Str("actor", in.name).Logger() }

// refuses reports whether the actor takes no more messages. The lock is held.
func (in *instance) refuses() bool { return in.over || in.state >= stopping }

// post puts a function on the actor's turn, before its mail. false: the actor has ended.
func (in *instance) post(f func(*Context)) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over || in.state.terminal() {
		return false
	}
	r := in.rarely()
	r.control = append(r.control, f)
	if in.box != nil {
		in.box.interrupt.Store(true)
	}
	in.wake()
	return true
}

// stop closes the mailbox; what is in it is still handled.
func (in *instance) stop(reason string) { in.close(ending{reason: reason}) }

func (in *instance) close(e ending) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refuses() {
		return
	}
	in.state, in.rarely().end = stopping, e
	in.wake()
}

// asked is stop for somebody else than the actor itself.
func (in *instance) asked(e ending) {
	in.mu.Lock()
	over := in.state.terminal()
	in.onRequest, in.late = in.onRequest || !in.over, in.late || in.over
	in.mu.Unlock()
	if over {
		in.proc.unwanted(in)
	} else {
		in.close(e)
	}
}

// withGroup is stop for an actor that is to be started again.
func (in *instance) withGroup() {
	in.mu.Lock()
	in.grouped = true
	in.mu.Unlock()
	in.stop("it is started again with its group")
}

// fail ends the actor as soon as the handler that runs has returned. Its context is cancelled and
// its mail comes back at once. It may be called on any goroutine; the first end counts.
func (in *instance) fail(e ending) { in.abandon(e, true) }

// drop is stop for an actor that is not to handle what is in its mailbox.
func (in *instance) drop(reason string) { in.abandon(ending{reason: reason}, false) }

func (in *instance) abandon(e ending, failed bool) {
	in.mu.Lock()
	if in.over || in.state.terminal() {
		in.mu.Unlock()
		return
	}
	in.state, in.over, in.failed = stopping, true, failed
	r := in.rarely()
	r.end = e
	if r.hurry != nil {
		close(r.hurry)
		r.hurry = nil
	}
	why := in.why()
	if r.giveUp != nil {
		r.giveUp(why)
	}
	tell := in.seize(why)
	in.wake()
	in.mu.Unlock()
	tell()
}

// wake sees to it that somebody runs the actor. The lock is held.
func (in *instance) wake() {
	if in.phase == resting {
		in.phase = between
		in.proc.turns.start(in)
	}
}

// step does the next thing there is to do, and reports whether to go on. It is false, too, on a
// goroutine whose handler ended it: another one has taken over.
func (in *instance) step() bool {
	in.mu.Lock()
	in.phase = between
	b := in.box
	if b != nil && !in.over {
		in.unclaim()
		if len(b.taken) > 0 && b.at == len(b.taken) {
			in.done()
		}
	}
	switch {
	case in.state.terminal():
		in.phase = resting
		in.mu.Unlock()
		return false
	case in.over:
		in.mu.Unlock()
		in.finish()
		in.terminate()
	case !in.begun:
		in.begun, in.phase = true, inside
		in.mu.Unlock()
		return in.turn(in.begin)
	case in.rare != nil && len(in.rare.control) > 0:
		f := in.rare.control[0]
		in.rare.control = in.rare.control[1:]
		in.phase = inside
		in.mu.Unlock()
		return in.turn(f)
	case b != nil && len(b.taken)+b.queued > 0:
		if len(b.taken) == 0 {
			in.take()
		}
		b.interrupt.Store(false)
		in.phase = handling
		in.mu.Unlock()
		return in.serve()
	case in.state == stopping:
		in.mu.Unlock()
		in.finish()
		in.terminate()
	case b != nil && b.lingers > 0:
		b.lingers--
		in.mu.Unlock()
		runtime.Gosched()
	default:
		in.phase = resting
		if b != nil {
			b.rest()
		}
		in.mu.Unlock()
		return false
	}
	return true
}

// serve handles the batch until it is done or interrupted.
func (in *instance) serve() (goOn bool) {
	defer func() {
		if in.box.gathers {
			in.box.gathers = false
			in.proc.links.Gathered()
		}
		in.box.taking.say()
		if !goOn {
			goOn = in.crashed(recover()) // may hand the actor to another goroutine: nothing of it is touched then
		}
	}()
	for b := in.box; b.at < len(b.taken); {
		r := b.taken[b.at]
		if r.lane.serve(in, r.n); b.served < r.n {
			break
		}
		b.at, b.served = b.at+1, 0
	}
	return true
}

// turn runs f as the actor.
func (in *instance) turn(f func(*Context)) (goOn bool) {
	ctx := &Context{in: in}
	in.turning = ctx
	defer func() {
		ctx.end()
		if !goOn {
			goOn = in.crashed(recover())
		}
	}()
	f(ctx)
	return true
}

// crashed fails an actor whose handler did not return, and tells whoever waits (ACT-2). p is what
// it panicked with; nil when it ended its goroutine (runtime.Goexit, as t.FailNow does), and then
// another one goes on and this one must not: false.
func (in *instance) crashed(p any) (goOn bool) {
	ctx := in.turning
	ctx.end()
	in.crash = true
	e := ending{endpoint: in.endpoint(), code: CodePanic, reason: "ended its goroutine"}
	if p != nil {
		e.reason = "panicked: " + wire.PanicText(p)
	}
	log := in.log()
	log.Error().Str("endpoint", e.endpoint).Bytes("stack", debug.Stack()).Msg("actor " + e.reason)
	err := errorf(CodePanic, in.id().String(), e.endpoint, "%s", e.reason)
	in.fail(e)
	if b := in.birth; b != nil && !b.over {
		in.constructed(errorf(CodePanic, in.id().String(), "", "the constructor of actor type %s %s", in.def.name, e.reason))
	}
	switch {
	case ctx.owed != nil: // its Reply may have come already
		ctx.owed.settle(nil, err)
	case ctx.answer != nil:
		ctx.answer.settle(nil, err)
	}
	if p == nil {
		in.proc.turns.start(in)
		return false
	}
	return true
}

// endpoint is the one whose handler runs; "" when none does. It may be asked on the turn only.
func (in *instance) endpoint() string {
	if in.phase != handling {
		return ""
	}
	return in.box.taken[in.box.at].lane.bound().name
}

// unanswered takes an error of a message that nobody waits for (ACT-4).
func (in *instance) unanswered(m *method, ctx *Context, err error) {
	if in.def.enduring {
		log := in.log()
		log.Warn().Err(err).Str("endpoint", m.name).Stringer("from", ctx.Sender()).Msg("a posted message was refused")
		return
	}
	in.fail(ending{endpoint: m.name, code: CodeHandler, reason: err.Error()})
}
