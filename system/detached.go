package system

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// detachedMesh is a mesh handed over by its owner (WORLD-16).
type detachedMesh struct {
	DetachedRecord
	confirmed     bool     // the hosts know the present owner
	waiters       []caller // callers that wait for that
	reason        string   // why it is not confirmed
	since         time.Time
	adoptDeadline time.Time // for the adopter's confirmation
}

// minLease is the least lease of a detached mesh. It is longer than a failover of the system
// controller.
const minLease = 30 * time.Second

// maxDetachedHosts bounds the record of a detached mesh.
const maxDetachedHosts = 1 << 16

// detach accepts a mesh: it saves the record, takes the mesh over at the hosts, then replies.
func (st *state) detach(e detach) {
	d, err := st.newDetached(e.DetachRequest)
	if err != nil {
		st.answer(e.from, nil, err)
		return
	}
	if d == nil {
		d = &detachedMesh{since: st.now, DetachedRecord: DetachedRecord{
			DetachRequest: e.DetachRequest, OriginalClaim: e.Claim,
			CurrentClaim: agent.Claim{Epoch: e.Claim.Epoch + 1, Owner: st.ownerOf(e.Mesh)},
		}}
		if r := st.reserved[e.Mesh.Label()]; r != nil { // the former owner's
			st.dropReservation(r)
		}
		st.detached[e.Mesh.Label()] = d
		st.claimOwnership(d)
	}
	if d.confirmed {
		st.answer(e.from, st.detachResponse(d), nil)
		return
	}
	d.waiters = append(d.waiters, e.from)
}

// newDetached checks a request. It returns the mesh of an earlier equal request, or nil for a new
// mesh.
func (st *state) newDetached(e DetachRequest) (*detachedMesh, error) {
	name := e.Mesh.Label()
	switch {
	case !e.Mesh.IsValid():
		return nil, fmt.Errorf("cannot detach: want the ID of a mesh")
	case e.Claim.Epoch == 0 || !e.Claim.Owner.IsValid():
		return nil, fmt.Errorf("cannot detach %s: want its owner and epoch", e.Mesh)
	case len(e.Hosts) == 0 || len(e.Hosts) > maxDetachedHosts:
		return nil, fmt.Errorf("cannot detach %s: %d hosts: want 1 to %d", e.Mesh, len(e.Hosts), maxDetachedHosts)
	case e.Lease < 0:
		return nil, fmt.Errorf("cannot detach %s: lease of %s: want more than 0, or 0 for none", e.Mesh, e.Lease)
	case st.shutdownReason != "":
		return nil, fmt.Errorf("the system is being stopped: %s", st.shutdownReason)
	}
	d := st.detached[name]
	w := st.worlds[name]
	r := st.reserved[name]
	switch {
	case r != nil && r.By != e.Claim.Owner.Proc:
		return nil, &NameTakenError{name, kindProgram, r.By.String()}
	case w != nil:
		return nil, &NameTakenError{name, kindWorld, w.meshText(name)}
	case d == nil:
		return nil, nil
	case d.Mesh != e.Mesh:
		return nil, &NameTakenError{name, kindMesh, d.Mesh.String()}
	case d.OriginalClaim != e.Claim:
		return nil, d.fencedError(e.Claim)
	}
	return d, nil
}

// fencedError is the refusal of a caller that does not name the present owner.
func (d *detachedMesh) fencedError(asked agent.Claim) error {
	return &agent.FencedError{ID: d.Mesh.String(), Agent: atSystem, Requested: asked, Current: d.CurrentClaim}
}

// atSystem names the system controller in a FencedError.
const atSystem = "system"

// IsSystemClaim reports whether a system controller claims a mesh, which is then detached.
func IsSystemClaim(mesh subjects.MeshID, c agent.Claim) bool {
	return c.Owner.Name == mesh.String() && c.Owner.Proc.Mesh.Label() == procName
}

// ownerOf returns the ID of the controller of a detached mesh in the present term.
func (st *state) ownerOf(mesh subjects.MeshID) subjects.ActorID { return st.self.Actor(mesh.String()) }

func (st *state) detachResponse(d *detachedMesh) DetachResponse {
	return DetachResponse{Mesh: d.Mesh, Claim: d.CurrentClaim, Durable: st.durable}
}

// claimOwnership saves the present owner of the mesh, and then takes the mesh over.
func (st *state) claimOwnership(d *detachedMesh) {
	r := d.DetachedRecord
	st.emit(saveRecord{Record{Name: d.Mesh.Label(), Detached: &r}})
	st.emit(takeOwnership{r})
}

// handleTakeResult applies the result of a takeover. It drops a mesh that has ended or has another
// owner. While hosts are silent, the takeover is repeated.
func (st *state) handleTakeResult(e takeResult) {
	d := st.currentDetached(e.mesh, e.epoch)
	switch {
	case d == nil:
	case e.retrying:
		d.reason = e.err.Error()
	case e.err != nil:
		st.dropDetached(d, e.err)
	default:
		d.confirmed = true
		d.reason = ""
		for _, to := range d.waiters {
			st.answer(to, st.detachResponse(d), nil)
		}
		d.waiters = nil
		st.emit(worldEvent{
			world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.detach",
			why: fmt.Sprintf("its owner is the system controller, in epoch %d", d.CurrentClaim.Epoch),
		})
	}
}

// currentDetached returns a detached mesh if the epoch is its present one; nil otherwise.
func (st *state) currentDetached(mesh subjects.MeshID, epoch uint64) *detachedMesh {
	if d := st.detached[mesh.Label()]; d != nil && d.Mesh == mesh && d.CurrentClaim.Epoch == epoch {
		return d
	}
	return nil
}

// dropDetached forgets a mesh, and returns the reason to its waiters.
func (st *state) dropDetached(d *detachedMesh, why error) {
	delete(st.detached, d.Mesh.Label())
	st.endHandover(d)
	st.emit(deleteRecord{world: d.Mesh.Label()})
	for _, to := range d.waiters {
		st.answer(to, nil, why)
	}
}

// handleDetachedEnd applies the end of a mesh, or its change of owner. An adopter's claim does not
// end the system's ownership: the adopter may die before it confirms.
func (st *state) handleDetachedEnd(e detachedEnd) {
	if d := st.currentDetached(e.mesh, e.epoch); d != nil && !d.isAdopter(e.by) {
		st.dropDetached(d, nil)
		st.emit(releaseDetached{mesh: d.Mesh, why: e.why})
	}
}

// restoreDetached restores a detached mesh, in its next epoch.
func (st *state) restoreDetached(r DetachedRecord) {
	d := &detachedMesh{DetachedRecord: r, since: st.now}
	st.detached[r.Mesh.Label()] = d
	st.nextEpoch(d)
}

// nextEpoch begins the next epoch of a mesh. It fences the former owner and the adopter.
func (st *state) nextEpoch(d *detachedMesh) {
	last := d.CurrentClaim
	d.FormerClaims = append(d.FormerClaims, d.CurrentClaim)
	if d.AdopterClaim != nil {
		last = *d.AdopterClaim
		d.FormerClaims = append(d.FormerClaims, last)
	}
	d.FormerClaims = d.FormerClaims[max(0, len(d.FormerClaims)-maxFormerClaims):]
	d.CurrentClaim = agent.Claim{Epoch: last.Epoch + 1, Owner: st.ownerOf(d.Mesh)}
	d.AdopterClaim = nil
	d.confirmed = false
	st.endHandover(d)
	st.claimOwnership(d)
}

// maxFormerClaims bounds the terms that may end before the hosts of a mesh learn of a later one.
const maxFormerClaims = 16

// isOwnClaim reports whether a claim known to a host is the original or one of the system's.
func (r DetachedRecord) isOwnClaim(c agent.Claim) bool {
	before := slices.ContainsFunc(r.FormerClaims, func(b agent.Claim) bool { return sameClaimant(b, c) })
	return c == r.OriginalClaim || c == r.CurrentClaim || before
}

// sameClaimant reports whether a claim has the epoch and the program of an announced one. A program
// announces its claim before it starts the owner.
func sameClaimant(announced, c agent.Claim) bool {
	return announced.Epoch == c.Epoch && announced.Owner.Proc == c.Owner.Proc
}

// stopDetached ends the detached meshes with the system.
func (st *state) stopDetached(why string) {
	for _, name := range slices.Sorted(maps.Keys(st.detached)) {
		d := st.detached[name]
		st.dropDetached(d, fmt.Errorf("the system is being stopped: %s", why))
		st.emit(releaseDetached{mesh: d.Mesh, why: why, stop: true})
	}
}

// listDetached lists the detached meshes by name.
func (st *state) listDetached() (out []DetachedState) {
	for _, name := range slices.Sorted(maps.Keys(st.detached)) {
		d := st.detached[name]
		why := d.reason
		if d.AdopterClaim != nil {
			why = "it is being adopted by " + d.AdopterClaim.Owner.String()
		}
		out = append(out, DetachedState{
			Mesh: d.Mesh, Claim: d.CurrentClaim, Age: st.now.Sub(d.since), Reason: why, Lease: d.Lease,
		})
	}
	return out
}
