package actor

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// mailboxSize is how many messages may wait for one actor before senders are refused.
const mailboxSize = 1024

// cleanupTimeout bounds what an actor does after its last message: waiting for its tasks, and its
// Stopping method.
const cleanupTimeout = 10 * time.Second

// Stopper is implemented by actors that have something to clean up. Stopping runs on the actor's
// turn after its last handler, when the actor stops but not when it failed; its context ends after
// 10 s. The actor is closed by then: what Stopping sends is not answered to its mailbox.
type Stopper interface{ Stopping(ctx *Context) }

// Status is where an actor is in its life. It only advances.
type Status string

const (
	Initializing Status = "initializing" // its constructor has not returned
	Running      Status = "running"
	Stopping     Status = "stopping" // accepts nothing new; it may be about to fail
	Stopped      Status = "stopped"  // terminal: it was asked to
	Failed       Status = "failed"   // terminal: constructor error, handler error nobody waited for, or panic
)

// Terminal reports whether the actor is gone.
func (s Status) Terminal() bool { return s == Stopped || s == Failed }

// instance is one actor: its mailbox and the goroutine that runs it while there is work (ACT-1).
//
//	push ─┐
//	post ─┼─ queue ─ run (a goroutine while the queue is not empty)
//	stop ─┤            ├─ failed: terminate, at once
//	fail ─┘            ├─ control: the constructor, results of tasks
//	                   ├─ mail: decode, call the method, answer
//	                   └─ nothing left and asked to stop: finish, terminate
type instance struct {
	proc   *Proc
	id     subjects.ActorID
	def    Def
	point  shape.Point
	log    zerolog.Logger
	ctx    context.Context // ends when the actor is told to give up; names the actor as the sender
	cancel context.CancelCauseFunc
	tasks  group
	done   chan struct{} // closed after the terminal event
	actor  any           // belongs to the turn

	mu      sync.Mutex // guards the fields below
	mail    mail
	control []func(*Context)
	debts   map[debt]struct{}
	running bool
	status  Status
	failed  bool   // it ends as Failed, and handles nothing more
	reason  string // why it stops, stopped or failed
	handled uint64
	current string // the endpoint whose handler runs
}

// push puts a message into the mailbox, or says why not.
func (in *instance) push(d Delivery) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.refusalLocked(d.Port); err != nil {
		return err
	}
	if in.mail.len() >= mailboxSize {
		return errorf(CodeMailboxFull, in.id.String(), d.Port, "its mailbox holds %d messages already", mailboxSize)
	}
	in.mail.push(d)
	in.wakeLocked()
	return nil
}

// refusalLocked says why the actor takes no more messages; nil while it does.
func (in *instance) refusalLocked(port string) *Error {
	switch {
	case in.failed:
		return errorf(CodeFailed, in.id.String(), port, "the actor failed: %s", in.reason)
	case in.status == Stopping || in.status.Terminal():
		return errorf(CodeStopped, in.id.String(), port, "the actor stopped: %s", in.reason)
	}
	return nil
}

// post puts a function on the actor's turn, before its mail. After the end it is dropped.
func (in *instance) post(f func(*Context)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.failed || in.status.Terminal() {
		return
	}
	in.control = append(in.control, f)
	in.wakeLocked()
}

// stop closes the mailbox; what is in it is still handled.
func (in *instance) stop(reason string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.status == Stopping || in.status.Terminal() {
		return
	}
	in.status, in.reason = Stopping, reason
	in.wakeLocked()
}

// fail ends the actor as soon as the handler that runs has returned: its context is cancelled, its
// mail comes back. It may be called on any goroutine; the first reason counts.
func (in *instance) fail(reason string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.failed || in.status.Terminal() {
		return
	}
	in.status, in.failed, in.reason = Stopping, true, reason
	in.cancel(errorf(CodeFailed, in.id.String(), "", "the actor failed: %s", reason))
	in.wakeLocked()
}

func (in *instance) wakeLocked() {
	if !in.running {
		in.running = true
		in.proc.turns.run(in.run)
	}
}

// run handles everything there is and ends; the next message starts it again.
func (in *instance) run() {
	for {
		in.mu.Lock()
		in.current = ""
		switch {
		case in.status.Terminal():
			in.running = false
			in.mu.Unlock()
			return
		case in.failed:
			in.mu.Unlock()
			in.terminate()
		case len(in.control) > 0:
			f := in.control[0]
			in.control = in.control[1:]
			in.mu.Unlock()
			in.turn(nil, f)
		case in.mail.len() > 0:
			d := in.mail.pop()
			in.handled++
			in.current = d.Port
			in.mu.Unlock()
			in.handle(&d)
		case in.status == Stopping:
			in.mu.Unlock()
			in.finish()
		default:
			in.running = false
			in.mu.Unlock()
			return
		}
	}
}

// spawnTask runs work on a goroutine that the actor and its proc wait for. An actor that has ended
// starts nothing.
func (in *instance) spawnTask(work func(context.Context) func(*Context)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.failed || in.status.Terminal() {
		return
	}
	in.tasks.n.Add(1)
	in.proc.turns.run(func() {
		defer in.tasks.done()
		defer func() {
			if p := recover(); p != nil { // ACT-2
				in.log.Error().Bytes("stack", debug.Stack()).Msgf("a task of the actor panicked: %v", p)
				in.fail(fmt.Sprintf("a task panicked: %v", p))
			}
		}()
		if f := work(in.ctx); f != nil {
			in.post(f)
		}
	})
}

// owe records an answer the actor has to give; false when it has ended and gives none any more.
func (in *instance) owe(d debt) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.status.Terminal() {
		return false
	}
	if in.debts == nil {
		in.debts = map[debt]struct{}{}
	}
	in.debts[d] = struct{}{}
	return true
}

func (in *instance) settled(d debt) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.debts, d)
}
