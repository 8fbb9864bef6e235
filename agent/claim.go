package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Claim names the owner of a resource, on whose behalf an order is given. Epoch grows with each new
// owner of the resource. The zero Claim stands for a sender without ownership, such as a person.
type Claim struct {
	Epoch uint64           `cbor:"1,keyasint" json:"epoch"`
	Owner subjects.ActorID `cbor:"2,keyasint" json:"owner"`
}

// Compare orders claims by epoch, then by owner. Two owners of one epoch rank the same everywhere.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(cmp.Compare(c.Epoch, o.Epoch), cmp.Compare(c.Owner.String(), o.Owner.String()))
}

// FencedError refuses the order of a former owner (AGT-10).
type FencedError struct {
	ID        string `json:"id"`        // the resource
	Agent     string `json:"agent"`     // the refusing agent
	Requested Claim  `json:"requested"` // claim of the order
	Current   Claim  `json:"current"`   // claim of the present owner
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%s on %s belongs to %s since epoch %d: the request is from %s in epoch %d", e.ID,
		e.Agent, e.Current.Owner, e.Current.Epoch, e.Requested.Owner, e.Requested.Epoch)
}

// Detail encodes the error for the wire.
func (e *FencedError) Detail() (actor.Code, []byte) {
	detail, _ := json.Marshal(e) // texts and numbers only: cannot fail
	return actor.CodeFenced, detail
}

// FromDetail decodes the result of Detail.
func (e *FencedError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeFenced && json.Unmarshal(detail, e) == nil && e.Current.Owner.IsValid()
}

// AsFenced returns the *FencedError in an error's chain, local or from the bus, or nil.
func AsFenced(err error) *FencedError {
	f, _ := errors.AsType[*FencedError](err)
	return f
}

// FencedFromEvent returns the *FencedError in an event of StepFenced, or nil.
func FencedFromEvent(e actor.Event) *FencedError {
	if f := new(FencedError); f.FromDetail(e.Code, e.Detail) {
		return f
	}
	return nil
}

// AcceptClaim records the claim of an order, or refuses an outdated one. A later claim takes the
// resource over. Argument at names the agent of the table.
func (t *Table) AcceptClaim(at, id string, c Claim) error {
	r, ok := t.resources[id]
	if !ok {
		return nil
	}
	err := r.checkClaim(at, id, c)
	if err == nil {
		t.recordClaim(r, c)
	}
	return err
}

// checkClaim returns an error for an outdated claim.
func (r *resource) checkClaim(at, id string, c Claim) error {
	if c == (Claim{}) || c.Compare(r.claim) >= 0 {
		return nil
	}
	return &FencedError{ID: id, Agent: at, Requested: c, Current: r.claim}
}

// recordClaim stores an accepted claim. Its owner owns the mesh from now on, even if the
// description of the mesh names a former owner.
func (t *Table) recordClaim(r *resource, c Claim) {
	if c == (Claim{}) {
		return
	}
	if c != r.claim {
		t.revision++
		r.claim = c
	}
	if r.mesh != nil && r.mesh.Owner != c.Owner {
		m := *r.mesh
		m.Owner = c.Owner
		r.mesh = &m
	}
}

// Claim returns the newest claim on a resource, or the zero Claim.
func (t *Table) Claim(id string) Claim {
	if r, ok := t.resources[id]; ok {
		return r.claim
	}
	return Claim{}
}

// owner returns the known owner of a resource, or "".
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
