package actor

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
)

// turn runs f as the actor and reports whether it returned. When it panicked, or ended its
// goroutine (runtime.Goexit, as t.FailNow does), the actor fails and the sender of d is told (ACT-2).
func (in *instance) turn(d *Delivery, f func(*Context)) (returned bool) {
	base := in.ctx
	if d != nil && !d.Deadline.IsZero() {
		var cancel context.CancelFunc
		base, cancel = context.WithDeadline(base, d.Deadline)
		defer cancel()
	}
	ctx := &Context{Context: base, in: in, delivery: d, point: in.point}
	if d != nil && !d.Point.Extent().Equal(shape.Unit()) { // a cast, not a direct message
		ctx.point = d.Point
	}
	defer func() {
		ctx.over.Store(true)
		if !returned {
			in.crashed(ctx, recover())
		}
	}()
	f(ctx)
	return true
}

// crashed fails an actor whose handler did not return. p is what it panicked with; nil when it
// ended its goroutine, and then another one runs the actor's end.
func (in *instance) crashed(ctx *Context, p any) {
	d := ctx.delivery
	err := errorf(CodePanic, in.id.String(), "", "panicked: %v", p)
	if p == nil {
		err.Text = "ended its goroutine"
	}
	if d != nil {
		err.Endpoint = d.Port
	}
	in.log.Error().Str("endpoint", err.Endpoint).Bytes("stack", debug.Stack()).Msg("actor " + err.Text)
	in.fail(err.Error())
	switch {
	case ctx.owed != nil: // its Reply may have come already
		ctx.owed.settle(nil, err)
	case d != nil:
		d.answer(nil, err)
	}
	if p == nil {
		in.proc.turns.run(in.run)
	}
}

// handle runs one message: decode, call, answer. What is not what the endpoint takes is the
// sender's fault and leaves the actor alone; an error that nobody waits for fails it (ACT-4).
func (in *instance) handle(d *Delivery) {
	m := in.def.methods[d.Port]
	arg, err := in.argument(m, d)
	if err != nil {
		in.proc.undeliverable(d, err)
		return
	}
	var (
		result   any
		herr     error
		deferred bool
	)
	if !in.turn(d, func(ctx *Context) {
		result, herr = m.call(in.actor, ctx, arg)
		deferred = ctx.owed != nil
	}) {
		return // crashed has told the sender
	}
	switch {
	case deferred:
	case herr == nil:
		d.answer(result, nil)
	case d.Answer == nil && in.def.enduring:
		in.log.Warn().Err(herr).Str("endpoint", d.Port).Stringer("from", d.From).Msg("a posted message was refused")
	case d.Answer == nil:
		in.fail(fmt.Sprintf("%s: %v", d.Port, herr))
	default:
		d.answer(nil, ranError(herr))
	}
}

// argument is the message in the type the endpoint takes.
func (in *instance) argument(m *method, d *Delivery) (any, error) {
	if !d.Local {
		v, err := m.arg(d.Format, d.Raw)
		if err != nil {
			return nil, errorf(CodeBadMessage, in.id.String(), d.Port, "takes %s: %v", m.In, err)
		}
		return v, nil
	}
	if !m.takes(d.Value) {
		return nil, errorf(CodeBadMessage, in.id.String(), d.Port, "takes %s, got %T", m.In, d.Value)
	}
	return d.Value, nil
}

// construct is the first turn of an actor. told, which holds one, gets the outcome; it gets none
// when the actor ends before its first turn.
func (in *instance) construct(s Spawning, told chan<- error) func(*Context) {
	return func(ctx *Context) {
		outcome := error(errorf(CodePanic, in.id.String(), "", "the constructor of actor type %s panicked", in.def.name))
		defer func() { told <- outcome }()
		if outcome = in.begin(ctx, s); outcome != nil {
			in.fail(outcome.Error())
		}
	}
}

// begin makes the actor from its parameters.
func (in *instance) begin(ctx *Context, s Spawning) (err error) {
	params := s.Params
	if params == nil && s.Raw != nil {
		if params, err = in.def.params(wire.CBOR, s.Raw); err != nil {
			return errorf(CodeBadMessage, in.id.String(), "", "actor type %s: parameters: %v", in.def.name, err)
		}
	}
	if in.actor, err = in.def.construct(ctx, params); err != nil {
		return fmt.Errorf("actor type %s: %w", in.def.name, err)
	}
	in.advance(Running)
	return nil
}

// advance moves an actor that is initializing forward; one that was told to stop meanwhile stays
// where it is.
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
