package actor

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/wire"
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
// 10 s.
type Stopper interface{ Stopping(ctx *Context) }

// Status is where an actor is in its life. It only advances.
type Status string

const (
	Initializing Status = "initializing" // its constructor has not returned
	Running      Status = "running"
	Stopping     Status = "stopping" // accepts nothing new
	Stopped      Status = "stopped"  // terminal: it was asked to
	Failed       Status = "failed"   // terminal: constructor error, handler error nobody waited for, or panic
)

// Terminal reports whether the actor is gone.
func (s Status) Terminal() bool { return s == Stopped || s == Failed }

// instance is one actor: its mailbox and the goroutine that runs it while there is work (ACT-1).
//
//	push ─┐
//	post ─┼─ queue ─ run (a goroutine while the queue is not empty)
//	stop ─┘            ├─ control: the constructor, results of tasks
//	                   ├─ mail: decode, call the method, answer
//	                   └─ nothing left and asked to stop: finish
type instance struct {
	proc   *Proc
	id     subjects.ActorID
	def    Def
	point  shape.Point
	log    zerolog.Logger
	ctx    context.Context // ends when the actor is told to give up
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup
	done   chan struct{} // closed after the terminal event
	actor  any           // belongs to the turn

	mu      sync.Mutex // guards the fields below
	mail    mail
	control []func(*Context)
	debts   map[debt]struct{}
	running bool
	status  Status
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
func (in *instance) refusalLocked(port string) error {
	switch in.status {
	case Stopping, Stopped:
		return errorf(CodeStopped, in.id.String(), port, "the actor stopped: %s", in.reason)
	case Failed:
		return errorf(CodeFailed, in.id.String(), port, "the actor failed: %s", in.reason)
	}
	return nil
}

// post puts a function on the actor's turn, before its mail. After the end it is dropped.
func (in *instance) post(f func(*Context)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.status.Terminal() {
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

func (in *instance) wakeLocked() {
	if !in.running {
		in.running = true
		in.proc.turns.Go(in.run)
	}
}

// run handles everything there is and ends; the next message starts it again.
func (in *instance) run() {
	for {
		in.mu.Lock()
		switch {
		case in.status.Terminal():
			in.running = false
			in.mu.Unlock()
			return
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
			in.running, in.current = false, ""
			in.mu.Unlock()
			return
		}
	}
}

// turn runs f as the actor; a panic fails the actor and is the error (ACT-2).
func (in *instance) turn(d *Delivery, f func(*Context)) (err error) {
	base := in.ctx
	if d != nil && !d.Deadline.IsZero() {
		var cancel context.CancelFunc
		base, cancel = context.WithDeadline(base, d.Deadline)
		defer cancel()
	}
	ctx := &Context{Context: base, in: in, delivery: d, point: in.point}
	if d != nil && d.Point.Extent().NumRanks() > 0 {
		ctx.point = d.Point
	}
	defer func() {
		if p := recover(); p != nil {
			in.log.Error().Str("stack", string(debug.Stack())).Msgf("actor panicked: %v", p)
			err = errorf(CodePanic, in.id.String(), in.current, "panicked: %v", p)
			in.fail(err.Error())
		}
	}()
	f(ctx)
	return nil
}

// handle runs one message: decode, call, answer. Bytes that do not decode are the sender's fault
// and leave the actor alone; an error that nobody waits for fails the actor (ACT-4).
func (in *instance) handle(d *Delivery) {
	m := in.def.methods[d.Port]
	arg := d.Value
	if !d.Local {
		v, err := m.arg(d.Format, d.Raw)
		if err != nil {
			d.answer(nil, errorf(CodeBadMessage, in.id.String(), d.Port, "takes %s: %v", m.In, err))
			return
		}
		arg = v
	}
	var (
		result   any
		herr     error
		deferred bool
	)
	perr := in.turn(d, func(ctx *Context) {
		result, herr = m.call(in.actor, ctx, arg)
		deferred = ctx.deferred
	})
	switch {
	case perr != nil:
		d.answer(nil, perr)
	case deferred:
	case herr != nil && d.Answer == nil:
		in.fail(fmt.Sprintf("%s: %v", d.Port, herr))
	default:
		d.answer(result, herr)
	}
}

// construct is the first turn of an actor. told gets the outcome.
func (in *instance) construct(params any, raw []byte, told chan<- error) {
	in.post(func(ctx *Context) {
		if params == nil {
			p, err := in.def.params(wire.CBOR, raw)
			if err != nil {
				err = errorf(CodeBadMessage, in.id.String(), "", "actor type %s: parameters: %v", in.def.name, err)
				in.fail(err.Error())
				told <- err
				return
			}
			params = p
		}
		answered := false
		defer func() { // a panic goes on to turn, which fails the actor
			if !answered {
				told <- errorf(CodePanic, in.id.String(), "", "the constructor of actor type %s panicked", in.def.name)
			}
		}()
		a, err := in.def.construct(ctx, params)
		if err != nil {
			err = fmt.Errorf("actor type %s: %w", in.def.name, err)
			in.fail(err.Error())
		} else {
			in.actor = a
			in.advance(Running)
		}
		answered = true
		told <- err
	})
}

// advance moves the status forward; it never goes back.
func (in *instance) advance(to Status) {
	in.mu.Lock()
	ahead := in.status == Initializing
	if ahead {
		in.status = to
	}
	in.mu.Unlock()
	if ahead {
		in.proc.emit(in.event(to, ""))
	}
}

func (in *instance) spawnTask(work func(context.Context) func(*Context)) {
	in.tasks.Go(func() {
		if f := work(in.ctx); f != nil {
			in.post(f)
		}
	})
}

func (in *instance) owe(d debt) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.debts[d] = struct{}{}
}

func (in *instance) settled(d debt) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.debts, d)
}
