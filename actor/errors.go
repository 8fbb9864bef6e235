package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/castnet-io/castnet/internal/wire"
)

// Code classifies the fate of a message. Codes are on the wire; the list is append-only.
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
	CodeNoProc      Code = 10 // the bus has no subscriber on the proc's subject
	CodeLinkBroken  Code = 11 // a message on the link was lost; it carries nothing more
	CodeTooLarge    Code = 12 // more bytes than the bus carries in one message
	CodeDeadline    Code = 13 // no answer within the deadline
	CodeCanceled    Code = 14 // the caller gave up
	CodeUnavailable Code = 15 // the bus cannot be reached
	CodeInvalid     Code = 16 // refused at the caller: a broken ref, name or value
	CodePortGone    Code = 17 // the port is closed, or was a once port and has had its message
	CodeKilled      Code = 18 // the actor was killed
	CodeCascade     Code = 19 // a child or a linked actor ended, and the actor with it
	CodeExpired     Code = 20 // its time was over before it reached the actor
	CodeBacklog     Code = 21 // the queue to that process is full
	CodeTooMany     Code = 22 // a plain NATS client sends more than it may
	CodeFenced      Code = 23 // the claim is older than another owner's; the detail names it
	CodeNameTaken   Code = 24 // the name belongs to a live mesh, a world or a program; the detail names it
	CodeConflict    Code = 25 // the request differs from the existing object; the detail says how
	CodeDenied      Code = 26 // the server, or the receiver, does not permit it to the sender
)

// Error is the error of every verb. Compare it with the sentinels by errors.Is: they match on the
// code alone.
type Error struct {
	Code     Code
	Text     string
	Actor    string // the target, as text; "" when there is none
	Endpoint string
	Ran      bool   // a handler ran the message, or may have, whatever the code says
	Event    *Event // the end of the actor or the proc behind this error, if known
	Detail   []byte // JSON: data of the code; see Detailed

	cause          error // a handler's own error, when it never left the process
	knownUnhandled bool  // no handler ran the message, whatever the code says
}

// Detailed is implemented by handler errors with a code and JSON data of their own, to keep their
// meaning on the wire. If a type also implements the inverse, errors.As finds it in errors from the
// bus.
type Detailed interface {
	error
	Detail() (Code, []byte)
}

// fromDetail is a Detailed with a decoder. false: the detail belongs to another type.
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
	ErrBacklog     = &Error{Code: CodeBacklog, Text: "too many bytes are queued for the process"}
	ErrTooMany     = &Error{Code: CodeTooMany, Text: "too many messages"}
	ErrDenied      = &Error{Code: CodeDenied, Text: "permission denied"}
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

// withEndpoint is e about another endpoint of the same actor.
func (e *Error) withEndpoint(endpoint string) *Error {
	other := *e
	other.Endpoint = endpoint
	return &other
}

// IsGone reports whether an error is the end of the receiver. After another one it may be alive.
func IsGone(err error) bool {
	return errors.Is(err, ErrNoProc) || errors.Is(err, ErrProcDead) || errors.Is(err, ErrNoActor) ||
		errors.Is(err, ErrStopped) || errors.Is(err, ErrFailed)
}

// Unwrap returns the error of a handler in this process; nil for an error from the bus.
func (e *Error) Unwrap() error { return e.cause }

// Undeliverable reports whether the message is known to be unhandled (DEL-2).
func (e *Error) Undeliverable() bool {
	switch e.Code {
	case CodeNoActor, CodeNoEndpoint, CodeBadMessage, CodeMailboxFull, CodeStopped, CodeFailed, CodeNoProc,
		CodeTooLarge, CodeUnavailable, CodeInvalid, CodePortGone, CodeExpired, CodeBacklog, CodeTooMany, CodeDenied:
		return !e.Ran
	}
	return e.knownUnhandled
}

// Indeterminate reports whether it cannot be known if a handler ran the message, or will.
func (e *Error) Indeterminate() bool {
	return !e.Refused() && e.Code != CodePanic && !e.Undeliverable()
}

// Refused reports whether a handler answered with this error.
func (e *Error) Refused() bool {
	switch e.Code {
	case CodeHandler, CodeFenced, CodeNameTaken, CodeConflict:
		return true
	case CodeDenied: // else the server denied the message, or the dispatch of the actor
		return e.Detail != nil
	}
	return false
}

// ranError returns the error for the sender of a message whose handler ran. It keeps the code and
// text of err, but is never Undeliverable (DEL-2).
func ranError(err error) *Error {
	e := asErrorValue(err)
	e.Ran = true
	e.knownUnhandled = false
	e.cause = err
	return &e
}

// asErrorValue converts any error to an Error. An Error and a Detailed keep their code; others
// become CodeHandler.
func asErrorValue(err error) Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		own := Error{Code: CodeHandler, Text: err.Error()}
		if d, detailed := errors.AsType[Detailed](err); detailed {
			own.Code, own.Detail = d.Detail()
		}
		return own
	}
	if e.Error() != err.Error() {
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
	case CodeDenied:
		return 403
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

// toWire converts any error to its wire form; a handler's own error becomes CodeHandler.
func toWire(err error) wire.Error {
	e := asErrorValue(err)
	w := wire.Error{Code: uint16(e.Code), Text: e.Text, Actor: e.Actor, Endpoint: e.Endpoint, Ran: e.Ran,
		Detail: e.Detail}
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
		err = errors.New("no code")
	}
	if err != nil {
		return &Error{Code: CodeBadMessage, Text: "cannot decode an error: " + err.Error(), Ran: true}
	}
	e := &Error{Code: Code(w.Code), Text: w.Text, Actor: w.Actor, Endpoint: w.Endpoint, Ran: w.Ran,
		Detail: w.Detail}
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

// MarkUnsent marks an error of a message that was never sent: no handler ran it.
func MarkUnsent(e *Error) *Error {
	own := *e
	own.Ran, own.knownUnhandled = false, true
	return &own
}

// fromContext turns the end of a context into an error about a target.
func fromContext(ctx context.Context, actor, endpoint string) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errorf(CodeDeadline, actor, endpoint, "no answer within the deadline")
	}
	return errorf(CodeCanceled, actor, endpoint, "the caller gave up: %v", context.Cause(ctx))
}
