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

// detachedMeshes are the meshes that the system controller owns for programs (WORLD-16).
type detachedMeshes struct {
	*core
	byName    map[string]*detachedMesh
	handovers []*detachedMesh // those with an adopter
}

// detach accepts a mesh whose name neither another program nor a world has.
func (st *state) detach(e detach) {
	name := e.Mesh.Label()
	r := st.reserved.byName[name]
	w := st.worlds[name]
	err := e.DetachRequest.check()
	switch {
	case err != nil:
	case st.shutdownReason != "":
		err = fmt.Errorf("the system is being stopped: %s", st.shutdownReason)
	case r != nil && r.By != e.Claim.Owner.Proc:
		err = &NameTakenError{name, kindProgram, r.By.String()}
	case w != nil:
		err = &NameTakenError{name, kindWorld, w.meshText(name)}
	}
	if err != nil {
		st.answer(e.from, nil, err)
		return
	}
	if r != nil && st.detached.byName[name] == nil { // the former owner's
		st.reserved.drop(r)
	}
	st.detached.detach(e)
}

// check returns an error for an incomplete request.
func (d DetachRequest) check() error {
	switch {
	case !d.Mesh.IsValid():
		return fmt.Errorf("cannot detach: want the ID of a mesh")
	case d.Claim.Epoch == 0 || !d.Claim.Owner.IsValid():
		return fmt.Errorf("cannot detach %s: want its owner and epoch", d.Mesh)
	case len(d.Hosts) == 0 || len(d.Hosts) > maxDetachedHosts:
		return fmt.Errorf("cannot detach %s: %d hosts: want 1 to %d", d.Mesh, len(d.Hosts), maxDetachedHosts)
	case d.Lease < 0:
		return fmt.Errorf("cannot detach %s: lease of %s: want more than 0, or 0 for none", d.Mesh, d.Lease)
	}
	return nil
}

// detach saves the record of a mesh, takes the mesh over at the hosts, then replies. An equal
// request gets the same reply.
func (ds *detachedMeshes) detach(e detach) {
	d := ds.byName[e.Mesh.Label()]
	switch {
	case d == nil:
		d = &detachedMesh{since: ds.now, DetachedRecord: DetachedRecord{
			DetachRequest: e.DetachRequest, OriginalClaim: e.Claim, By: e.by,
			CurrentClaim: agent.Claim{Epoch: e.Claim.Epoch + 1, Owner: ds.ownerOf(e.Mesh)},
		}}
		ds.byName[e.Mesh.Label()] = d
		ds.claimOwnership(d)
	case d.Mesh != e.Mesh:
		ds.answer(e.from, nil, &NameTakenError{e.Mesh.Label(), kindMesh, d.Mesh.String()})
		return
	case d.OriginalClaim != e.Claim:
		ds.answer(e.from, nil, d.fencedError(e.Claim))
		return
	}
	if d.confirmed {
		ds.answer(e.from, ds.response(d), nil)
		return
	}
	d.waiters = append(d.waiters, e.from)
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
func (ds *detachedMeshes) ownerOf(mesh subjects.MeshID) subjects.ActorID {
	return ds.self.Actor(mesh.String())
}

func (ds *detachedMeshes) response(d *detachedMesh) DetachResponse {
	return DetachResponse{Mesh: d.Mesh, Claim: d.CurrentClaim, Durable: ds.durable}
}

// claimOwnership saves the present owner of the mesh, and then takes the mesh over.
func (ds *detachedMeshes) claimOwnership(d *detachedMesh) {
	r := d.DetachedRecord
	ds.emit(saveRecord{Record{Name: d.Mesh.Label(), Detached: &r}})
	ds.emit(takeOwnership{r})
}

// handleTakeResult applies the result of a takeover. It drops a mesh that has ended or has another
// owner. While hosts are silent, the takeover is repeated.
func (ds *detachedMeshes) handleTakeResult(e takeResult) {
	d := ds.current(e.mesh, e.epoch)
	switch {
	case d == nil:
	case e.retrying:
		d.reason = e.err.Error()
	case e.err != nil:
		ds.drop(d, e.err)
	default:
		d.confirmed = true
		d.reason = ""
		for _, to := range d.waiters {
			ds.answer(to, ds.response(d), nil)
		}
		d.waiters = nil
		ds.emit(worldEvent{
			mesh: d.Mesh, step: "mesh.detach",
			why: fmt.Sprintf("its owner is the system controller, in epoch %d", d.CurrentClaim.Epoch),
		})
	}
}

// current returns a detached mesh if the epoch is its present one; nil otherwise.
func (ds *detachedMeshes) current(mesh subjects.MeshID, epoch uint64) *detachedMesh {
	if d := ds.byName[mesh.Label()]; d != nil && d.Mesh == mesh && d.CurrentClaim.Epoch == epoch {
		return d
	}
	return nil
}

// drop forgets a mesh, and returns the reason to its waiters.
func (ds *detachedMeshes) drop(d *detachedMesh, why error) {
	delete(ds.byName, d.Mesh.Label())
	ds.endHandover(d)
	ds.emit(deleteRecord{world: d.Mesh.Label()})
	for _, to := range d.waiters {
		ds.answer(to, nil, why)
	}
}

// handleEnd applies the end of a mesh, or its change of owner. An adopter's claim does not
// end the system's ownership: the adopter may die before it confirms.
func (ds *detachedMeshes) handleEnd(e detachedEnd) {
	if d := ds.current(e.mesh, e.epoch); d != nil && !d.isAdopter(e.by) {
		ds.drop(d, nil)
		ds.emit(releaseDetached{mesh: d.Mesh, why: e.why})
	}
}

// restore restores a detached mesh, in its next epoch.
func (ds *detachedMeshes) restore(r DetachedRecord) {
	d := &detachedMesh{DetachedRecord: r, since: ds.now}
	ds.byName[r.Mesh.Label()] = d
	ds.nextEpoch(d)
}

// nextEpoch begins the next epoch of a mesh. It fences the former owner and the adopter.
func (ds *detachedMeshes) nextEpoch(d *detachedMesh) {
	last := d.CurrentClaim
	d.FormerClaims = append(d.FormerClaims, d.CurrentClaim)
	if d.AdopterClaim != nil {
		last = *d.AdopterClaim
		d.FormerClaims = append(d.FormerClaims, last)
	}
	d.FormerClaims = d.FormerClaims[max(0, len(d.FormerClaims)-maxFormerClaims):]
	d.CurrentClaim = agent.Claim{Epoch: last.Epoch + 1, Owner: ds.ownerOf(d.Mesh)}
	d.AdopterClaim = nil
	d.confirmed = false
	ds.endHandover(d)
	ds.claimOwnership(d)
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

// stopAll ends the detached meshes with the system.
func (ds *detachedMeshes) stopAll(why string) {
	for _, name := range slices.Sorted(maps.Keys(ds.byName)) {
		d := ds.byName[name]
		ds.drop(d, fmt.Errorf("the system is being stopped: %s", why))
		ds.emit(releaseDetached{mesh: d.Mesh, why: why, stop: true})
	}
}

// list lists the detached meshes by name.
func (ds *detachedMeshes) list() (out []DetachedState) {
	for _, name := range slices.Sorted(maps.Keys(ds.byName)) {
		d := ds.byName[name]
		why := d.reason
		if d.AdopterClaim != nil {
			why = "it is being adopted by " + d.AdopterClaim.Owner.String()
		}
		out = append(out, DetachedState{
			Mesh: d.Mesh, Claim: d.CurrentClaim, Age: ds.now.Sub(d.since), Reason: why, Lease: d.Lease,
		})
	}
	return out
}
