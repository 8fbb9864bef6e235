package actor

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// DefaultDeadline is how long a verb waits when its context has no deadline of its own.
const DefaultDeadline = 30 * time.Second

// clientName is the name under which code that is not an actor sends and is answered.
const clientName = "client"

// Ref is a typed address of one actor. It is a value: copy it, send it in a message (only the ID
// travels), keep it. It stays valid as a value when the actor is gone; verbs then say so.
type Ref[A any] struct {
	id  subjects.ActorID
	via *Proc
	err error
}

// RefOf claims that an ID belongs to an actor of Go type A. Nothing checks the claim; a wrong one
// comes back from the first verb as ErrNoEndpoint or ErrBadMessage.
func RefOf[A any](id subjects.ActorID) Ref[A] {
	if !id.IsValid() {
		return BadRef[A](fmt.Errorf("want a valid actor ID, got %q", id))
	}
	return Ref[A]{id: id}
}

// BadRef is a ref that carries an error: every verb returns it as it is.
func BadRef[A any](err error) Ref[A] { return Ref[A]{err: err} }

// Via binds the proc that speaks for code that is not an actor.
func (r Ref[A]) Via(p *Proc) Ref[A] {
	r.via = p
	return r
}

// ID is the actor's address.
func (r Ref[A]) ID() subjects.ActorID { return r.id }

// Err is the error a bad ref carries.
func (r Ref[A]) Err() error { return r.err }

func (r Ref[A]) String() string {
	if r.err != nil {
		return "bad ref: " + r.err.Error()
	}
	return r.id.String()
}

// MarshalText writes the ID; a bad ref cannot be sent.
func (r Ref[A]) MarshalText() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.id.MarshalText()
}

// UnmarshalText reads an ID. The ref is bound to no proc: an actor may use it as it is, other
// code binds it with Via.
func (r *Ref[A]) UnmarshalText(text []byte) error {
	*r = Ref[A]{}
	return r.id.UnmarshalText(text)
}

// Call sends m and waits for the answer, at most until ctx ends (without a deadline: 30 s). The
// sender is the actor whose Context ctx is or derives from, else the client of the proc the ref
// is bound to. Errors are *Error; errors.Is with the sentinels tells them apart. An actor that
// calls waits on its own turn: two actors that call each other wait for their deadlines.
func (e Endpoint[A, M, R]) Call(ctx context.Context, to Ref[A], m M) (R, error) {
	var zero R
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		return zero, err
	}
	return Open[R](p.call(ctx, from, to.id, e.name, m))
}

// Post sends m and does not wait. A nil error says that the bus has the message; what becomes of
// it later is logged here when it comes back.
func (e Endpoint[A, M, R]) Post(ctx context.Context, to Ref[A], m M) error {
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		return err
	}
	return p.post(from, to.id.Port(e.name), m)
}

func (e Endpoint[A, M, R]) prepare(ctx context.Context, to Ref[A]) (*Proc, string, error) {
	if to.err != nil {
		return nil, "", to.err
	}
	if !to.id.IsValid() {
		return nil, "", errorf(CodeInvalid, "", e.name, "want the ref of an actor, got the zero Ref")
	}
	if err := e.Err(); err != nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), "", "%v", err)
	}
	p, from := senderOf(ctx, to.via)
	if p == nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), e.name,
			"nobody to send as: call from an actor's handler with its Context, or bind the ref with Via")
	}
	return p, from, nil
}

// Sender finds who speaks: the actor whose Context ctx is or derives from, else the client of
// via. The proc is nil when there is neither.
func Sender(ctx context.Context, via *Proc) (p *Proc, name string) { return senderOf(ctx, via) }

func senderOf(ctx context.Context, via *Proc) (*Proc, string) {
	if in, ok := ctx.Value(senderKey{}).(*instance); ok {
		return in.proc, in.id.Name
	}
	return via, clientName
}
