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

// AcceptClaim records the claim of an order, or refuses it: one that is outdated, and one that its
// sender may not make (AGT-13). A later claim takes the resource over. Argument at names the agent
// of the table. The zero sender is the agent's own process.
func (t *Table) AcceptClaim(at, id string, c Claim, by subjects.Sender) error {
	r, ok := t.resources[id]
	if !ok {
		return nil
	}
	err := r.checkClaim(at, id, c, by)
	if err == nil {
		t.recordClaim(r, c, by)
	}
	return err
}

// checkClaim returns an error for an outdated claim, and for one that its sender may not make.
func (r *resource) checkClaim(at, id string, c Claim, by subjects.Sender) error {
	if c != (Claim{}) && c.Compare(r.claim) < 0 {
		return &FencedError{ID: id, Agent: at, Requested: c, Current: r.claim}
	}
	if !by.IsValid() || by.Role().IsOneOf(subjects.Operator, subjects.System) {
		return nil
	}
	owner := r.ownerID()
	if !owner.IsValid() || isOwner(by, r.principal, owner.Proc.Process()) {
		return nil
	}
	// A system controller gives its meshes away. Records of earlier hosts may lack the principal.
	if c != (Claim{}) && (!r.principal.IsValid() || r.principal.Role() == subjects.System) {
		return nil
	}
	return &NotOwnerError{
		Object: id + " on " + at, Owner: owner.String(), Principal: r.principal.String(), By: by,
	}
}

// isOwner reports whether a sender is an owner: its process, or any program of its user. Procs of
// a host may have a principal in common, and differ by their process. Without a principal, the
// process decides.
func isOwner(by subjects.Sender, principal subjects.Principal, process subjects.ProcessID) bool {
	if principal.IsValid() && by.Principal() != principal {
		return false
	}
	if principal.IsValid() && by.Role() == subjects.Program {
		return true
	}
	sender, err := by.Process() // a plain client has none
	return err == nil && sender == process
}

// CheckOwner refuses a message about an object of a process, unless it is from this process, its
// owner or an operator (AGT-13). The zero owner is nobody.
func CheckOwner(ctx *actor.Context, object string, owner subjects.Sender) error {
	by := ctx.RemoteSender()
	if !by.IsValid() || by.Role() == subjects.Operator {
		return nil
	}
	process, err := owner.Process()
	if err == nil && isOwner(by, owner.Principal(), process) {
		return nil
	}
	return &NotOwnerError{Object: object, Owner: owner.String(), By: by}
}

// CheckProcess is CheckOwner for an object that is a process itself, of any principal.
func CheckProcess(ctx *actor.Context, object string, process subjects.ProcessID) error {
	by := ctx.RemoteSender()
	if !by.IsValid() || by.Role() == subjects.Operator || isOwner(by, subjects.Principal{}, process) {
		return nil
	}
	return &NotOwnerError{Object: object, Owner: process.String(), By: by}
}

// NotOwnerError refuses an order of a sender that neither owns its object nor is an operator
// (AGT-13).
type NotOwnerError struct {
	Object    string          `json:"object"`
	Owner     string          `json:"owner,omitempty"`     // of the object
	Principal string          `json:"principal,omitempty"` // of the owner; "": unknown
	By        subjects.Sender `json:"by"`                  // of the order
}

func (e *NotOwnerError) Error() string {
	owner := cmp.Or(e.Owner, "no program")
	if e.Principal != "" {
		owner += " of " + e.Principal
	}
	return fmt.Sprintf("%s belongs to %s: %s may not act on it: want its owner, or the role operator "+
		"(castnet auth mint --role operator)", e.Object, owner, e.By)
}

// Detail encodes the error for the wire.
func (e *NotOwnerError) Detail() (actor.Code, []byte) {
	detail, _ := json.Marshal(e) // texts only: cannot fail
	return actor.CodeDenied, detail
}

// recordClaim stores an accepted claim. Its owner owns the mesh from now on, even if the
// description of the mesh names a former owner.
func (t *Table) recordClaim(r *resource, c Claim, by subjects.Sender) {
	if c == (Claim{}) {
		return
	}
	if by.IsValid() {
		r.principal = by.Principal()
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

// Principal returns the principal of a resource's owner; invalid if it is unknown.
func (t *Table) Principal(id string) subjects.Principal {
	if r, ok := t.resources[id]; ok {
		return r.principal
	}
	return subjects.Principal{}
}

// MayRead reports whether a sender may read the arguments and environments of a mesh (AGT-13): an
// operator, its owner, and a system controller. A process that may own meshes may take one over
// from a system controller, and then needs them. The zero sender is the agent's own process.
func (t *Table) MayRead(id string, by subjects.Sender) bool {
	if !by.IsValid() || by.Role().IsOneOf(subjects.Operator, subjects.System) {
		return true
	}
	r, ok := t.resources[id]
	if !ok {
		return false
	}
	owner := r.ownerID()
	return owner.IsValid() && isOwner(by, r.principal, owner.Proc.Process()) ||
		by.Role().IsOneOf(Owning()...) && r.principal.Role() == subjects.System
}

// owner returns the known owner of a resource, or "".
func (t *Table) owner(id string) string {
	if r := t.resources[id]; r != nil {
		return r.ownerID().String()
	}
	return ""
}

// ownerID returns the known owner, or the zero ID.
func (r *resource) ownerID() subjects.ActorID {
	if !r.claim.Owner.IsValid() && r.mesh != nil {
		return r.mesh.Owner
	}
	return r.claim.Owner
}
