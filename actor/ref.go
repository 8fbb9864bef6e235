package actor

import (
	"fmt"

	"github.com/castnet-io/castnet/subjects"
)

// Ref is a typed address of one actor. It is a value: copy it, send it in a message (only the ID
// travels), keep it. It stays valid as a value when the actor is gone; verbs then say so.
type Ref[A any] struct {
	id  subjects.ActorID
	via *Proc
	in  *instance // the actor, when it lives in this process and was there when the ref was bound
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

// Self is the actor whose Context ctx is, as a Ref. A must be its Go type: nothing checks it.
func Self[A any](ctx *Context) Ref[A] { return Ref[A]{id: ctx.Self(), via: ctx.in.proc, in: ctx.in} }

// BadRef is a ref that carries an error: every verb returns it as it is.
func BadRef[A any](err error) Ref[A] { return Ref[A]{err: err} }

// Via binds the proc that speaks for code that is not an actor.
func (r Ref[A]) Via(p *Proc) Ref[A] {
	r.via, r.in = p, nil
	if p != nil && r.id.Proc == p.id {
		r.in = p.find(r.id.Name)
	}
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
