package system

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// handoverTimeout bounds the time for an adopter to take over a mesh and confirm, with half the
// mesh's lease as a second bound. If the adopter dies, the system takes the mesh back before the
// hosts end it.
const handoverTimeout = 10 * time.Second

// handoverWindow is the time to confirm an adoption.
func (d *detachedMesh) handoverWindow() time.Duration {
	if d.Lease > 0 {
		return min(handoverTimeout, d.Lease/2)
	}
	return handoverTimeout
}

// isAdopter reports whether a claim is the adopter's.
func (d *detachedMesh) isAdopter(c agent.Claim) bool {
	return d.AdopterClaim != nil && sameClaimant(*d.AdopterClaim, c)
}

// mayAdopt reports whether a sender may have the mesh: it has the principal that detached it, or is
// an operator.
func (d *detachedMesh) mayAdopt(by subjects.Sender) bool {
	return !by.IsValid() || by.Role() == subjects.Operator || by.Principal() == d.By.Principal()
}

// adopt gives a mesh to the caller that names its epoch, one caller at a time. The adopter takes
// the mesh over in the next epoch, and confirms that. Until then the system owns the mesh.
func (ds *detachedMeshes) adopt(e adopt) {
	d := ds.byName[e.Mesh.Label()]
	switch {
	case d == nil || d.Mesh != e.Mesh:
		ds.answer(e.from, nil, &NotFoundError{fmt.Sprintf("detached mesh %s", e.Mesh)})
	case e.Claim.Epoch != d.CurrentClaim.Epoch:
		ds.answer(e.from, nil, d.fencedError(e.Claim))
	case !d.mayAdopt(e.by):
		ds.answer(e.from, nil, &agent.NotOwnerError{
			Object: "detached mesh " + d.Mesh.String(), Owner: d.By.String(), By: e.by,
		})
	case !e.Claim.Owner.IsValid():
		ds.answer(e.from, nil, fmt.Errorf("cannot adopt %s: want the ID of the new owner", e.Mesh))
	case d.AdopterClaim != nil:
		ds.answer(e.from, nil, &agent.FencedError{
			ID: d.Mesh.String(), Agent: atSystem, Requested: e.Claim, Current: *d.AdopterClaim,
		})
	case !d.confirmed:
		ds.answer(e.from, nil, fmt.Errorf("cannot adopt %s: it is being detached: %s", e.Mesh, d.reason))
	default:
		d.AdopterClaim = &agent.Claim{Epoch: d.CurrentClaim.Epoch + 1, Owner: e.Claim.Owner}
		d.adoptDeadline = ds.now.Add(d.handoverWindow())
		ds.handovers = append(ds.handovers, d)
		ds.emit(saveRecord{Record{Name: d.Mesh.Label(), Detached: new(d.DetachedRecord)}})
		ds.answer(e.from, AdoptResponse{d.DetachRequest, d.CurrentClaim}, nil)
	}
}

// confirm releases a mesh to its adopter. If the mesh is absent, it was released before: the reply
// to an earlier confirmation may have been lost.
func (ds *detachedMeshes) confirm(e confirm) {
	d := ds.byName[e.Mesh.Label()]
	switch {
	case d == nil || d.Mesh != e.Mesh:
		ds.answer(e.from, nil, nil)
	case !d.isAdopter(e.Claim):
		ds.answer(e.from, nil, d.fencedError(e.Claim))
	default:
		ds.drop(d, nil)
		ds.emit(releaseDetached{mesh: d.Mesh, why: "adopted by " + e.Claim.Owner.String()})
		ds.answer(e.from, nil, nil)
		ds.emit(worldEvent{
			mesh: d.Mesh, step: "mesh.adopt", why: "adopted by " + e.Claim.Owner.String(),
		})
	}
}

// reclaimExpired takes meshes back from adopters that did not confirm in time.
func (ds *detachedMeshes) reclaimExpired() {
	for _, d := range slices.Clone(ds.handovers) {
		if !ds.now.Before(d.adoptDeadline) {
			why := fmt.Sprintf("%s did not confirm the adoption within %s", d.AdopterClaim.Owner, d.handoverWindow())
			ds.emit(worldEvent{world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.adopt.lapse", why: why})
			ds.emit(releaseDetached{mesh: d.Mesh, why: "its adoption was not confirmed"})
			ds.nextEpoch(d)
		}
	}
}

// endHandover ends the adoption of a mesh.
func (ds *detachedMeshes) endHandover(d *detachedMesh) {
	ds.handovers = slices.DeleteFunc(ds.handovers, func(x *detachedMesh) bool { return x == d })
}
