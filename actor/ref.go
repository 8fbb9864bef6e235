package actor

import (
	"fmt"

	"github.com/castnet-io/castnet/subjects"
)

// Ref is a typed address of one actor. It is a value: copy it, send it in a message (only the ID
// travels), keep it. When the actor is gone, verbs on its Ref return errors. The zero Ref is no
// actor; it travels as an empty text.
type Ref[A any] struct{ actorRef }

// actorRef is a Ref without the Go type.
type actorRef struct {
	id  subjects.ActorID
	via *Proc
	in  *instance // the actor, when it lives in this process and was there when the ref was bound
	err error
}

// RefOf asserts that an ID belongs to an actor of Go type A, without a check. With a wrong type,
// the first verb returns ErrNoEndpoint or ErrBadMessage.
func RefOf[A any](id subjects.ActorID) Ref[A] {
	if !id.IsValid() {
		return ErrRef[A](fmt.Errorf("want a valid actor ID, got %q", id))
	}
	return Ref[A]{actorRef{id: id}}
}

// Self is the Ref of the actor of ctx. A must be its Go type, without a check.
func Self[A any](ctx *Context) Ref[A] {
	return Ref[A]{actorRef{id: ctx.Self(), via: ctx.in.proc, in: ctx.in}}
}

// ErrRef is a ref with an error: every verb returns that error.
func ErrRef[A any](err error) Ref[A] { return Ref[A]{actorRef{err: err}} }

// Via binds the proc that sends for code that is not an actor.
func (r Ref[A]) Via(p *Proc) Ref[A] {
	bindRef(&r.actorRef, p)
	return r
}

func bindRef(r *actorRef, p *Proc) {
	r.via, r.in = p, nil
	if p != nil && r.id.Proc == p.id {
		r.in = p.find(r.id.Name)
	}
}

// ID is the actor's address.
func (r actorRef) ID() subjects.ActorID { return r.id }

// Err is the error a bad ref carries.
func (r actorRef) Err() error { return r.err }

func (r actorRef) String() string {
	if r.err != nil {
		return "bad ref: " + r.err.Error()
	}
	return r.id.String()
}

// MarshalText writes the ID, "" for the zero Ref; a bad ref cannot be sent.
func (r actorRef) MarshalText() ([]byte, error) {
	if r.err != nil || r.id == (subjects.ActorID{}) {
		return nil, r.err
	}
	return r.id.MarshalText()
}

// UnmarshalText reads an ID. The ref is bound to no proc: an actor may use it as it is, other
// code binds it with Via.
func (r *actorRef) UnmarshalText(text []byte) error {
	*r = actorRef{}
	if len(text) == 0 {
		return nil
	}
	return r.id.UnmarshalText(text)
}
