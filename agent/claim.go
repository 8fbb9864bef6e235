package agent

import (
	"cmp"
	"encoding/json"
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
	ID    string `json:"id"`    // the resource
	At    string `json:"at"`    // which agent refuses
	Asked Claim  `json:"asked"` // under which the order was given
	Has   Claim  `json:"has"`   // that of the owner
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%s on %s belongs to %s since epoch %d: the order is of %s in epoch %d", e.ID, e.At, e.Has.Owner, e.Has.Epoch, e.Asked.Owner, e.Asked.Epoch)
}

// Detail is how the error travels.
func (e *FencedError) Detail() (actor.Code, []byte) {
	detail, _ := json.Marshal(e) // of texts and numbers: it cannot fail
	return actor.CodeFenced, detail
}

// FromDetail reads what Detail has made.
func (e *FencedError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeFenced && json.Unmarshal(detail, e) == nil && e.Has.Owner.IsValid()
}

// Fenced is the *FencedError that an error is or holds, also when it came over the bus; nil: there is none.
func Fenced(err error) *FencedError {
	f, _ := errors.AsType[*FencedError](err)
	return f
}

// FencedIn is the *FencedError that an event tells of (Fencing); nil: none.
func FencedIn(e actor.Event) *FencedError {
	if f := new(FencedError); f.FromDetail(e.Code, e.Detail) {
		return f
	}
	return nil
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
		t.note(r, c)
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
func (t *Table) note(r *resource, c Claim) {
	if c == (Claim{}) || c == r.claim {
		return
	}
	t.changes++
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
