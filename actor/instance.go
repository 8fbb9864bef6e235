package actor

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Status is the state in an actor's life. It only advances.
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

// phase is the current work of the goroutine that runs an actor.
type phase uint8

const (
	phaseIdle     phase = iota // none runs it
	phaseBetween               // it looks for work
	phaseHandling              // the batch
	phaseControl               // a control function
)

// instance is one actor: its mailbox and the goroutine that runs it while there is work (ACT-1).
//
//	send, deliver ─┐
//	post ──────────┼─ steps (of a worker, while there is work)
//	stop ──────────┤     ├─ over: finish, terminate, at once
//	fail ──────────┘     ├─ control: the constructor, results of tasks, ends of children
//	                     ├─ mail: handle a batch, or the rest of one
//	                     └─ nothing left and asked to stop: finish, terminate
//
// The turn reads the first fields for each message, and senders write the last ones: a cache line
// lies between.
type instance struct {
	proc       *Proc
	def        *Def
	actor      any      // the turn's
	currentCtx *Context // the turn's: of what runs
	mailbox    *mailbox // guarded by the lock; nil: it has had no message, or has ended

	name   string
	parent *instance              // nil: the proc is
	spawn  *spawnState            // its origin; nil once it is no longer needed
	worker atomic.Pointer[worker] // the worker that runs it, or ran it last

	mu                sync.Mutex // guards the fields below, and those that mailbox names
	state             state
	phase             phase
	constructorCalled bool // its constructor was called
	aborted           bool // nothing more is handled
	cleaningUp        bool // it is wound up: it takes in no more children
	failed            bool // it ends as Failed
	terminated        bool // its terminal event is out
	hasPorts          bool // it has opened ports
	stopRequested     bool // requested by another goroutine
	lateStopRequest   bool // a stop was requested during another end
	groupRestart      bool // its parent asked it to stop, and will start it again
	startReported     bool // the spawner has the constructor's result
	handlerCrashed    bool // the turn's: a handler did not return
	strategy          Strategy
	limit             int32
	predecessors      int32 // how many of its name this proc had before it, as far as it remembers
	announceEnd       bool  // its end is published
	announceStart     bool  // and publish that it runs
	extra             *instanceExtra
}

// instanceExtra holds the fields that few actors need. The instance's lock guards it.
type instanceExtra struct {
	control           []func(*Context)
	ending            ending
	ctx               context.Context
	cancel            context.CancelCauseFunc
	tasks             taskGroup
	timers            map[*delayedCall]struct{}
	deferreds         map[*deferred]struct{}
	answersTimed      bool          // the stopping actor finishes work for deferred answers
	answersOverdue    bool          // it no longer waits for them
	done              chan struct{} // closed after the terminal event
	observers         map[*endObserver]struct{}
	links             map[subjects.ActorID]struct{}
	queuedDeadLetters int // dead letters waiting for its turn
	// closed when it is killed while it waits for its children; nil: it does not
	killedWhileStopping chan struct{}
	restartChain        *restartChain // shared with its successors and predecessors; nil: it has none
	failure             *Event        // the last of a child
	handled             uint64        // messages, when the mailbox is gone
	children            *children
}

// needsNoCleanup reports whether nothing is to be wound up. The lock is held.
func (r *instanceExtra) needsNoCleanup() bool {
	return r == nil || r.ctx == nil && r.children == nil && r.tasks.n.Load() == 0 &&
		len(r.timers)+len(r.deferreds)+len(r.observers) == 0
}

// ensureExtra returns the fields that few actors need. The lock is held.
func (in *instance) ensureExtra() *instanceExtra {
	if in.extra == nil {
		in.extra = &instanceExtra{}
	}
	return in.extra
}

func (in *instance) status() Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.status()
}

func (in *instance) id() subjects.ActorID { return in.proc.id.Actor(in.name) }

func (in *instance) log() *zerolog.Logger {
	log := in.proc.log.With().Str("actor", in.name).Logger()
	return &log
}

// refuses reports whether the actor takes no more messages. The lock is held.
func (in *instance) refuses() bool { return in.aborted || in.state >= stopping }

// runSoon puts a function on the actor's turn, before its mail. false: the actor has ended.
func (in *instance) runSoon(f func(*Context)) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.aborted || in.state.terminal() {
		return false
	}
	r := in.ensureExtra()
	r.control = append(r.control, f)
	if in.mailbox != nil {
		in.mailbox.interrupt.Store(true)
	}
	in.wake()
	return true
}

// stop closes the mailbox; its messages are still handled.
func (in *instance) stop(reason string) { in.close(ending{reason: reason}) }

func (in *instance) close(e ending) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refuses() {
		return
	}
	in.state = stopping
	in.ensureExtra().ending = e
	in.wake()
}

// requestStop is stop for callers other than the actor itself.
func (in *instance) requestStop(e ending) {
	in.mu.Lock()
	over := in.state.terminal()
	if in.aborted {
		in.lateStopRequest = true
	} else {
		in.stopRequested = true
	}
	in.mu.Unlock()
	if over {
		cancelRestart(in)
	} else {
		in.close(e)
	}
}

// stopForGroupRestart is stop for an actor that will be restarted.
func (in *instance) stopForGroupRestart() {
	in.mu.Lock()
	in.groupRestart = true
	in.mu.Unlock()
	in.stop("its group restarts")
}

// fail ends the actor after the current handler. Its context is cancelled and its mail comes back
// at once. It may be called on any goroutine; the first end counts.
func (in *instance) fail(e ending) { in.abort(e, true) }

// stopNow is stop without handling the mailbox.
func (in *instance) stopNow(reason string) { in.abort(ending{reason: reason}, false) }

func (in *instance) abort(e ending, failed bool) {
	in.mu.Lock()
	if in.aborted || in.state.terminal() {
		in.mu.Unlock()
		return
	}
	in.state = stopping
	in.aborted = true
	in.failed = failed
	r := in.ensureExtra()
	r.ending = e
	if r.killedWhileStopping != nil {
		close(r.killedWhileStopping)
		r.killedWhileStopping = nil
	}
	why := in.endError()
	if r.cancel != nil {
		r.cancel(why)
	}
	tell := in.mailbox.drain(why)
	in.wake()
	in.mu.Unlock()
	tell()
}

// wake schedules the actor on a worker. The lock is held.
func (in *instance) wake() {
	if in.phase == phaseIdle {
		in.phase = phaseBetween
		in.proc.workers.start(in)
	}
}

// step does the next piece of work, and reports whether to go on. It is also false on a goroutine
// ended by its handler: another one has taken over.
func (in *instance) step() bool {
	in.mu.Lock()
	in.phase = phaseBetween
	b := in.mailbox
	if b != nil && !in.aborted {
		b.unclaim()
		if len(b.batch) > 0 && b.batchPos == len(b.batch) {
			b.finishBatch()
		}
	}
	switch {
	case in.state.terminal():
		in.phase = phaseIdle
		in.mu.Unlock()
		return false
	case in.aborted:
		in.mu.Unlock()
		in.shutdown()
		in.terminate()
	case !in.constructorCalled:
		in.constructorCalled = true
		in.phase = phaseControl
		in.mu.Unlock()
		return in.runOnTurn(in.construct)
	case in.extra != nil && len(in.extra.control) > 0:
		f := in.extra.control[0]
		in.extra.control = in.extra.control[1:]
		in.phase = phaseControl
		in.mu.Unlock()
		return in.runOnTurn(f)
	case b != nil && len(b.batch)+b.queued > 0:
		if len(b.batch) == 0 {
			b.takeBatch()
		}
		b.interrupt.Store(false)
		in.phase = phaseHandling
		in.mu.Unlock()
		return in.handleBatch()
	case in.state == stopping && !in.awaitsAnswers():
		in.mu.Unlock()
		in.shutdown()
		in.terminate()
	case b != nil && b.lingerSteps > 0:
		b.lingerSteps--
		in.mu.Unlock()
		runtime.Gosched()
	default:
		in.phase = phaseIdle
		in.currentCtx = nil // it holds a message
		if b != nil {
			b.shrink()
		}
		in.mu.Unlock()
		return false
	}
	return true
}

// handleBatch handles the batch until it is done or interrupted.
func (in *instance) handleBatch() (goOn bool) {
	labels := in.proc.workers.labels.Load()
	defer func() {
		if labels != nil {
			labels.clear()
		}
		if in.mailbox.batchesReplies {
			in.mailbox.batchesReplies = false
			in.proc.links.FlushBatch()
		}
		if !goOn {
			// may hand the actor to another goroutine; do not use it after that
			goOn = in.handleCrash(recover())
		}
	}()
	for b := in.mailbox; b.batchPos < len(b.batch); {
		r := b.batch[b.batchPos]
		if labels != nil {
			labels.set(turnKind{in.def.name, r.method.name})
		}
		r.queue.serve(in, r.n)
		if b.servedOfRun < r.n {
			break
		}
		b.batchPos++
		b.servedOfRun = 0
	}
	return true
}

// runOnTurn runs f as the actor.
func (in *instance) runOnTurn(f func(*Context)) (goOn bool) {
	ctx := &Context{origin: origin{in: in}}
	in.currentCtx = ctx
	if labels := in.proc.workers.labels.Load(); labels != nil {
		labels.set(turnKind{actorType: in.def.name})
		defer labels.clear()
	}
	defer func() {
		ctx.finish()
		if !goOn {
			goOn = in.handleCrash(recover())
		}
	}()
	f(ctx)
	return true
}

// handleCrash fails an actor whose handler did not return, and answers the waiting caller (ACT-2).
// p is the panic value. It is nil after runtime.Goexit (as in t.FailNow): another goroutine goes
// on, and this one must end (false).
func (in *instance) handleCrash(p any) (goOn bool) {
	ctx := in.currentCtx
	ctx.finish()
	in.handlerCrashed = true
	e := ending{endpoint: in.currentEndpoint(), code: CodePanic, reason: "ended its goroutine"}
	if p != nil {
		e.reason = "panicked: " + panicText(p)
	}
	in.log().Error().Str("endpoint", e.endpoint).Bytes("stack", debug.Stack()).Msg("actor " + e.reason)
	err := errorf(CodePanic, in.id().String(), e.endpoint, "%s", e.reason)
	if in.mailbox != nil {
		in.endHandlerSpan(nil, err)
	}
	in.fail(e)
	if b := in.spawn; b != nil && !b.constructed {
		in.finishConstruct(errorf(CodePanic, in.id().String(), "", "the constructor of actor type %s %s",
			in.def.name, e.reason))
	}
	if ctx.deferred != nil { // its Reply may have come already
		ctx.deferred.complete(nil, err)
	} else if ctx.answer != nil {
		ctx.answer.complete(nil, err)
	}
	if p == nil {
		in.proc.workers.start(in)
		return false
	}
	return true
}

// maxPanicFrames bounds the places in the text of a panic.
const maxPanicFrames = 4

// panicText describes the panic that a deferred function has recovered, with its place in the code
// and the places of the callers, up to the call of the user's function by this package.
func panicText(p any) string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	var places []string
	panicking, inUser := false, false
	for f, more := frames.Next(); more && len(places) < maxPanicFrames; f, more = frames.Next() {
		own := strings.HasPrefix(f.Function, "github.com/castnet-io/castnet/actor.")
		if own && inUser {
			break
		}
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			dir, file := path.Split(f.File)
			places = append(places, fmt.Sprintf("%s/%s:%d", path.Base(dir), file, f.Line))
			inUser = !own
		}
		panicking = panicking || f.Function == "runtime.gopanic"
	}
	if len(places) == 0 {
		return wire.PanicText(p)
	}
	return fmt.Sprintf("%s (%s)", wire.PanicText(p), strings.Join(places, ", from "))
}

// currentEndpoint is the endpoint of the running handler; "" if none runs. Call it on the turn
// only.
func (in *instance) currentEndpoint() string {
	if in.phase != phaseHandling {
		return ""
	}
	return in.mailbox.batch[in.mailbox.batchPos].method.name
}

// onUnawaitedError handles an error of a message without a waiting caller (ACT-4).
func (in *instance) onUnawaitedError(m *method, ctx *Context, err error) {
	if in.def.resumeOnError {
		in.log().Warn().Err(err).Str("endpoint", m.name).Stringer("from", ctx.Sender()).
			Msg("message refused by its handler")
		return
	}
	in.fail(ending{endpoint: m.name, code: CodeHandler, reason: err.Error()})
}
