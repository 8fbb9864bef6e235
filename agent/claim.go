package agent

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Claim is in whose name an order about a resource is given: that of its owner, in an epoch of the resource, which
// grows with each owner that follows another. The zero Claim is that of who does not own it, such as a person.
type Claim struct {
	Epoch uint64           `cbor:"1,keyasint" json:"epoch"`
	Owner subjects.ActorID `cbor:"2,keyasint" json:"owner"`
}

// Compare orders claims, those of one epoch by their owners: of two that never heard of each other one goes first
// everywhere.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(cmp.Compare(c.Epoch, o.Epoch), cmp.Compare(c.Owner.String(), o.Owner.String()))
}

// FencedError refuses the order of an owner that another one has followed (AGT-10).
type FencedError struct {
	ID, At     string // the resource, and which agent refuses
	Asked, Has Claim
}

const fencedFormat = "%s on %s belongs to %s since epoch %d : the order is of %s in epoch %d"

func (e *FencedError) Error() string {
	return fmt.Sprintf(fencedFormat, e.ID, e.At, e.Has.Owner, e.Has.Epoch, e.Asked.Owner, e.Asked.Epoch)
}

// Fenced is the *FencedError that an error is or holds, also when it came over the bus, where errors travel as text;
// nil: there is none.
func Fenced(err error) *FencedError {
	if f, ok := errors.AsType[*FencedError](err); ok {
		return f
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			if f := Fenced(one); f != nil {
				return f
			}
		}
		return nil
	}
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Code == actor.CodeHandler {
		return ParseFenced(e.Text)
	}
	return nil
}

// ParseFenced reads the text of a FencedError; nil: it is none.
func ParseFenced(text string) *FencedError {
	var f FencedError
	var has, asked string
	if _, err := fmt.Sscanf(text, fencedFormat, &f.ID, &f.At, &has, &f.Has.Epoch, &asked, &f.Asked.Epoch); err != nil {
		return nil
	}
	var hasErr, askedErr error
	f.Has.Owner, hasErr = subjects.ParseActorID(has)
	f.Asked.Owner, askedErr = subjects.ParseActorID(asked)
	if hasErr != nil || askedErr != nil {
		return nil
	}
	return &f
}

// Obey takes note of the claim that an order about a resource is given under, or refuses it. A later one takes the
// resource over. at says whose table it is.
func (t *Table) Obey(at, id string, c Claim) error {
	r, ok := t.resources[id]
	if !ok {
		return nil
	}
	err := r.refuse(at, id, c)
	if err == nil {
		r.note(c)
	}
	return err
}

// refuse says why an order has come too late; nil: it has not.
func (r *resource) refuse(at, id string, c Claim) error {
	if c == (Claim{}) || c.Compare(r.claim) >= 0 {
		return nil
	}
	return &FencedError{ID: id, At: at, Asked: c, Has: r.claim}
}

// note takes down a claim that is not refused. Whoever has it owns the mesh from now on.
func (r *resource) note(c Claim) {
	if c == (Claim{}) || c == r.claim {
		return
	}
	if r.claim = c; r.mesh != nil && r.mesh.Owner != c.Owner {
		m := *r.mesh
		m.Owner = c.Owner
		r.mesh = &m
	}
}

// Claim is the newest one on a resource; zero: none.
func (t *Table) Claim(id string) Claim {
	if r, ok := t.resources[id]; ok {
		return r.claim
	}
	return Claim{}
}

// owner is who owns a resource, as far as is known; "": nobody has said.
func (t *Table) owner(id string) string {
	r := t.resources[id]
	switch {
	case r == nil:
		return ""
	case r.claim.Owner.IsValid():
		return r.claim.Owner.String()
	case r.mesh != nil:
		return r.mesh.Owner.String()
	}
	return ""
}
