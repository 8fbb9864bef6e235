package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/castnet-io/castnet/internal/wire"
)

// Code says what became of a message. Codes travel; they are append-only.
type Code uint16

const (
	CodeHandler     Code = 1  // a handler ran and returned an error
	CodePanic       Code = 2  // a handler ran and panicked; the actor failed
	CodeNoActor     Code = 3  // the proc has no actor of that name
	CodeNoEndpoint  Code = 4  // the actor has no endpoint or port of that name
	CodeBadMessage  Code = 5  // the body is not what the endpoint takes
	CodeMailboxFull Code = 6  // the actor's mailbox has no room
	CodeStopped     Code = 7  // the actor has stopped, or is stopping
	CodeFailed      Code = 8  // the actor has failed, or is failing
	CodeProcDead    Code = 9  // the proc is known to be dead
	CodeNoProc      Code = 10 // nobody listens on the proc's subject
	CodeLinkBroken  Code = 11 // a message on the link was lost; it carries nothing more
	CodeTooLarge    Code = 12 // more bytes than the bus carries in one message
	CodeDeadline    Code = 13 // no answer within the deadline
	CodeCanceled    Code = 14 // the caller gave up
	CodeUnavailable Code = 15 // the bus cannot be reached
	CodeInvalid     Code = 16 // refused at the caller: a broken ref, name or value
	CodePortGone    Code = 17 // the port existed and is closed, or was a once port that has had its message
	CodeKilled      Code = 18 // the actor was killed
	CodeCascade     Code = 19 // the actor did not survive the end of another: its child, or one it is linked to
	CodeExpired     Code = 20 // its time was over before it reached the actor
	CodeBacklog     Code = 21 // too much waits for that process already
	CodeTooMany     Code = 22 // a plain NATS client sends more than it may
	CodeFenced      Code = 23 // the order of an owner that another one has followed: the detail says who
	CodeNameTaken   Code = 24 // a name that a live mesh, a world or a program has: the detail says which
	CodeConflict    Code = 25 // what is there already differs from what was asked for: the detail says how
)

// Error is what every verb returns when a message has no value for an answer. Compare with the
// sentinels by errors.Is: they match on the code alone.
type Error struct {
	Code     Code
	Text     string
	Actor    string // the target, as text; "" when there is none
	Endpoint string
	Ran      bool   // a handler ran the message, or may have, although the code says otherwise
	Event    *Event // the end of the actor or the proc, when that is why
	Detail   []byte // JSON: what else belongs to the code; see Detailed

	cause error // a handler's own error, when it never left the process
	sure  bool  // no handler ran the message, whatever the code says by itself
}

// Detailed is the error of a handler that has a code of its own, and what belongs to that, as JSON: so it keeps its
// meaning where it travels. When it can be read from that, too, errors.As finds it in what came over the bus.
type Detailed interface {
	error
	Detail() (Code, []byte)
}

// fromDetail is a Detailed that can be read; false: it was something else.
type fromDetail interface {
	Detailed
	FromDetail(Code, []byte) bool
}

// Sentinels for errors.Is.
var (
	ErrNoActor     = &Error{Code: CodeNoActor, Text: "no such actor"}
	ErrNoEndpoint  = &Error{Code: CodeNoEndpoint, Text: "no such endpoint"}
	ErrBadMessage  = &Error{Code: CodeBadMessage, Text: "bad message"}
	ErrMailboxFull = &Error{Code: CodeMailboxFull, Text: "mailbox full"}
	ErrStopped     = &Error{Code: CodeStopped, Text: "actor stopped"}
	ErrFailed      = &Error{Code: CodeFailed, Text: "actor failed"}
	ErrPanic       = &Error{Code: CodePanic, Text: "handler panicked"}
	ErrProcDead    = &Error{Code: CodeProcDead, Text: "proc is dead"}
	ErrNoProc      = &Error{Code: CodeNoProc, Text: "no such proc"}
	ErrLinkBroken  = &Error{Code: CodeLinkBroken, Text: "link broken"}
	ErrTooLarge    = &Error{Code: CodeTooLarge, Text: "message too large"}
	ErrDeadline    = &Error{Code: CodeDeadline, Text: "deadline exceeded"}
	ErrUnavailable = &Error{Code: CodeUnavailable, Text: "bus unavailable"}
	ErrPortGone    = &Error{Code: CodePortGone, Text: "port is gone"}
	ErrInvalid     = &Error{Code: CodeInvalid, Text: "invalid"}
	ErrExpired     = &Error{Code: CodeExpired, Text: "expired"}
	ErrBacklog     = &Error{Code: CodeBacklog, Text: "too much waits for the process"}
	ErrTooMany     = &Error{Code: CodeTooMany, Text: "too many messages"}
)

func (e *Error) Error() string {
	switch {
	case e.Actor == "" && e.Endpoint == "":
		return e.Text
	case e.Endpoint == "":
		return e.Actor + ": " + e.Text
	case e.Actor == "":
		return e.Endpoint + ": " + e.Text
	}
	return e.Actor + ": " + e.Endpoint + ": " + e.Text
}

// Is matches any *Error of the same code, and the context errors their codes stand for.
func (e *Error) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return t.Code == e.Code
	}
	return (e.Code == CodeDeadline || e.Code == CodeExpired) && target == context.DeadlineExceeded ||
		e.Code == CodeCanceled && target == context.Canceled
}

// As finds the Detailed error of a handler in another process.
func (e *Error) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	if e.Detail == nil || to.Kind() != reflect.Pointer {
		return false
	}
	made := reflect.New(to.Type().Elem())
	own, ok := made.Interface().(fromDetail)
	if !ok || !own.FromDetail(e.Code, e.Detail) {
		return false
	}
	to.Set(made)
	return true
}

// about is e about another endpoint of the same actor.
func (e *Error) about(endpoint string) *Error {
	other := *e
	other.Endpoint = endpoint
	return &other
}

// Unwrap is the error a handler in this process returned; what came over the bus has none.
func (e *Error) Unwrap() error { return e.cause }

// Undeliverable reports that no handler ran the message (DEL-2).
func (e *Error) Undeliverable() bool {
	switch e.Code {
	case CodeNoActor, CodeNoEndpoint, CodeBadMessage, CodeMailboxFull, CodeStopped, CodeFailed, CodeNoProc,
		CodeTooLarge, CodeUnavailable, CodeInvalid, CodePortGone, CodeExpired, CodeBacklog, CodeTooMany:
		return !e.Ran
	}
	return e.sure
}

// Indeterminate reports that nobody knows whether a handler ran the message, or will.
func (e *Error) Indeterminate() bool {
	return !e.Refused() && e.Code != CodePanic && !e.Undeliverable()
}

// Refused reports that a handler has answered, and that this error is its answer.
func (e *Error) Refused() bool {
	switch e.Code {
	case CodeHandler, CodeFenced, CodeNameTaken, CodeConflict:
		return true
	}
	return false
}

// ranError is what the sender of a message is told when its handler ran: err keeps its code and its
// words, and never passes for a message that was not handled (DEL-2).
func ranError(err error) *Error {
	e := plain(err)
	e.Ran, e.sure, e.cause = true, false, err
	return &e
}

// plain puts any error into the form of this package: its own keep their code, and so do those that are Detailed;
// others are a handler's.
func plain(err error) Error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		own := Error{Code: CodeHandler, Text: err.Error()}
		if d, detailed := errors.AsType[Detailed](err); detailed {
			own.Code, own.Detail = d.Detail()
		}
		return own
	case e.Error() != err.Error():
		return Error{Code: e.Code, Text: err.Error(), Ran: e.Ran, Event: e.Event, Detail: e.Detail}
	}
	return *e
}

// HTTPCode is the code a foreign NATS client sees in Nats-Service-Error-Code.
func (e *Error) HTTPCode() int {
	switch e.Code {
	case CodeNoActor, CodeNoEndpoint, CodeNoProc:
		return 404
	case CodeBadMessage, CodeInvalid:
		return 400
	case CodeMailboxFull, CodeBacklog, CodeTooMany:
		return 429
	case CodeFenced, CodeNameTaken, CodeConflict:
		return 409
	case CodeStopped, CodeFailed, CodeProcDead, CodePortGone:
		return 410
	case CodeDeadline, CodeExpired:
		return 408
	case CodeTooLarge:
		return 413
	case CodeUnavailable, CodeLinkBroken:
		return 503
	}
	return 500
}

// toWire puts any error into the form that travels; a handler's own error becomes CodeHandler.
func toWire(err error) wire.Error {
	e := plain(err)
	w := wire.Error{Code: uint16(e.Code), Text: e.Text, Actor: e.Actor, Endpoint: e.Endpoint, Ran: e.Ran, Detail: e.Detail}
	if e.Event != nil {
		w.Event, _ = json.Marshal(e.Event) // of texts and numbers: it cannot fail
	}
	return w.Bounded()
}

// FromWire reads the body of a Failure, Bounce or Break frame.
func FromWire(body []byte) *Error {
	var w wire.Error
	err := wire.Unmarshal(body, &w)
	if err == nil && w.Code == 0 {
		err = errors.New("it has no code")
	}
	if err != nil {
		return &Error{Code: CodeBadMessage, Text: "an error that does not decode: " + err.Error(), Ran: true}
	}
	e := &Error{Code: Code(w.Code), Text: w.Text, Actor: w.Actor, Endpoint: w.Endpoint, Ran: w.Ran, Detail: w.Detail}
	if ev, err := DecodeEvent(w.Event); err == nil {
		e.Event = &ev
	}
	return e
}

// EncodeError is the body FromWire reads.
func EncodeError(err error) []byte {
	b, merr := wire.Marshal(toWire(err))
	if merr != nil { // a struct of numbers and bounded texts: cannot be
		panic(fmt.Sprintf("actor: encode an error: %v", merr))
	}
	return b
}

// errorf makes an error about a target.
func errorf(code Code, actor, endpoint, format string, args ...any) *Error {
	return &Error{Code: code, Actor: actor, Endpoint: endpoint, Text: fmt.Sprintf(format, args...)}
}

// Unsent is an error about a message that was never sent: no handler runs it.
func Unsent(e *Error) *Error {
	own := *e
	own.sure = true
	return &own
}

// fromContext turns the end of a context into an error about a target.
func fromContext(ctx context.Context, actor, endpoint string) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errorf(CodeDeadline, actor, endpoint, "no answer within the deadline")
	}
	return errorf(CodeCanceled, actor, endpoint, "the caller gave up: %v", context.Cause(ctx))
}
