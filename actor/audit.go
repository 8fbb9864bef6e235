package actor

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/subjects"
)

// Answers to an act, the statuses of events of KindAudit.
const (
	ActPending = "pending" // the actor works on it: another event has the answer
	ActGranted = "granted"
	ActRefused = "refused"
)

// Act is a message of an audited endpoint that names its object. A routine one is audited only if
// its handler refuses it.
type Act interface {
	Act() (object string, routine bool)
}

// RoutineActs is an actor for which more acts are routine.
type RoutineActs interface {
	IsRoutine(message any) bool
}

// Audited makes each message of the endpoint an act: its handler's answer is a line of the log and
// an event (ACT-16).
func (m Method[A]) Audited() Method[A] {
	if m.m != nil {
		m.m.audited = true
	}
	return m
}

// Audit records that the present message is a granted act, for an endpoint that is not audited.
func (c *Context) Audit(act, object string) {
	(&auditRecord{in: c.in, act: act, object: object, by: c.SentBy()}).write(ActGranted, nil)
}

// SentBy is the principal and the process that sent the message, as its subject names them. It is
// zero where there is no message.
func (c *Context) SentBy() subjects.Sender {
	if c.delivery != nil && c.delivery.Sender.IsValid() {
		return c.delivery.Sender
	}
	if c.Sender().IsValid() { // of this process
		return c.in.proc.sender
	}
	return subjects.Sender{}
}

// RemoteSender is the sender of a message from another process, as its subject names it; zero for a
// message of this process.
func (c *Context) RemoteSender() subjects.Sender {
	if c.delivery == nil {
		return subjects.Sender{}
	}
	return c.delivery.Sender
}

// auditRecord is an act and its sender.
type auditRecord struct {
	in          *instance
	act, object string
	by          subjects.Sender
	routine     bool
	reply       string // where an urgent message is answered; "": it is not urgent
}

// newAuditRecord returns the record of a message.
func newAuditRecord(act string, ctx *Context, message any) *auditRecord {
	r := &auditRecord{in: ctx.in, act: act, by: ctx.SentBy()}
	if m, ok := message.(Act); ok {
		r.object, r.routine = m.Act()
	}
	if a, ok := ctx.in.actor.(RoutineActs); ok && a.IsRoutine(message) {
		r.routine = true
	}
	if m := ctx.in.def.methods[act]; ctx.delivery != nil && m != nil && m.urgent {
		r.reply = ctx.delivery.Reply
	}
	return r
}

// onHandled records the return of the handler. An error of an urgent message on the control
// connection is none to its sender (Context.OnControl).
func (r *auditRecord) onHandled(ctx *Context, answer *deferred, err error) {
	switch {
	case err != nil && ctx.OnControl():
	case err != nil:
		r.write(ActRefused, err)
	case r.routine:
	case answer != nil:
		answer.audit(r)
	default:
		r.write(ActGranted, nil)
	}
}

// onAnswer records a deferred answer.
func (r *auditRecord) onAnswer(err error) {
	if err != nil {
		r.write(ActRefused, err)
	} else {
		r.write(ActGranted, nil)
	}
}

// write writes the record. Both copies of an urgent message can be handled, and equal records of
// them are written once. Copies that differ have a record each, whatever their reply port.
func (r *auditRecord) write(answer string, err error) {
	if r.reply != "" && !r.in.proc.process.urgents.audit(
		fmt.Sprintf("%q", []string{r.reply, r.by.String(), r.act, r.object, answer})) {
		return
	}
	e := r.in.event(Status(answer), ending{})
	e.Kind = KindAudit
	e.Step = "audit." + r.act
	e.Object = r.object
	e.By = r.by.String()
	e.At = time.Now()
	line := zerolog.Dict().Str("act", r.act).Str("by", e.By).Str("object", r.object).Str("answer", answer)
	if err != nil {
		e.Reason = err.Error()
		if known, ok := errors.AsType[*Error](err); ok {
			e.Code = known.Code
		}
		line.Str("reason", e.Reason)
	}
	r.in.log().Info().Dict("audit", line).Msg(r.act + " " + answer)
	r.in.proc.Emit(e)
}
