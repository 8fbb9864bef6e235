package worlds

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// detached is a mesh that its owner has handed over (WORLD-16).
type detached struct {
	DetachedRecord
	taken   bool     // the hosts have heard who owns it now
	waiters []ticket // that want to know when it is
	why     string   // it is not taken
	since   time.Time
	until   time.Time // when it is taken back from who is adopting it
}

// minLease is the least lease of a detached mesh: another system controller is to have taken over within it.
const minLease = 30 * time.Second

// maxDetachedHosts bounds what a record of a detached mesh takes.
const maxDetachedHosts = 1 << 16

// detach takes a mesh in: what it is to become is saved, and then the hosts hear of it. The answer comes after that.
func (st *state) detach(e detach) {
	d, err := st.detachable(e.Detaching)
	if err != nil {
		st.answer(e.from, nil, err)
		return
	}
	if d == nil {
		d = &detached{since: st.now, DetachedRecord: DetachedRecord{
			Detaching: e.Detaching, Given: e.Claim, Now: agent.Claim{Epoch: e.Claim.Epoch + 1, Owner: st.ownerOf(e.Mesh)},
		}}
		if r := st.reserved[e.Mesh.Label()]; r != nil { // by who hands the mesh over
			st.unreserve(r)
		}
		st.detached[e.Mesh.Label()] = d
		st.claim(d)
	}
	if d.taken {
		st.answer(e.from, d.owned(), nil)
		return
	}
	d.waiters = append(d.waiters, e.from)
}

// detachable is the mesh if the same was asked before, or why it cannot be.
func (st *state) detachable(e Detaching) (*detached, error) {
	name := e.Mesh.Label()
	switch {
	case !e.Mesh.IsValid():
		return nil, fmt.Errorf("detach: want the ID of a mesh")
	case e.Claim.Epoch == 0 || !e.Claim.Owner.IsValid():
		return nil, fmt.Errorf("detach %s: want its owner, and the epoch of that", e.Mesh)
	case len(e.Hosts) == 0 || len(e.Hosts) > maxDetachedHosts:
		return nil, fmt.Errorf("detach %s: %d hosts: want 1 to %d", e.Mesh, len(e.Hosts), maxDetachedHosts)
	case e.Lease < 0:
		return nil, fmt.Errorf("detach %s: lease of %s: want more than 0, or 0 for none", e.Mesh, e.Lease)
	case st.going != "":
		return nil, fmt.Errorf("the system is being stopped: %s", st.going)
	}
	d, w, r := st.detached[name], st.worlds[name], st.reserved[name]
	switch {
	case r != nil && r.By != e.Claim.Owner.Proc:
		return nil, &NameTakenError{name, kindProgram, r.By.String()}
	case w != nil:
		return nil, &NameTakenError{name, kindWorld, w.meshText(name)}
	case d == nil:
		return nil, nil
	case d.Mesh != e.Mesh:
		return nil, &NameTakenError{name, kindMesh, d.Mesh.String()}
	case d.Given != e.Claim:
		return nil, d.fenced(e.Claim)
	}
	return d, nil
}

// fenced refuses who does not know the owner of today.
func (d *detached) fenced(asked agent.Claim) error {
	return &agent.FencedError{ID: d.Mesh.String(), At: atSystem, Asked: asked, Has: d.Now}
}

// atSystem says who refuses.
const atSystem = "system"

// Owns reports whether a claim on a mesh is that of a system controller: the mesh is detached.
func Owns(mesh subjects.MeshID, c agent.Claim) bool {
	return c.Owner.Name == mesh.String() && c.Owner.Proc.Mesh.Label() == procName
}

// ownerOf is the controller of a detached mesh in the term of this system controller.
func (st *state) ownerOf(mesh subjects.MeshID) subjects.ActorID { return st.self.Actor(mesh.String()) }

func (d *detached) owned() Owned { return Owned{Mesh: d.Mesh, Claim: d.Now} }

// claim has the mesh taken over in the name of today's owner, once that is saved.
func (st *state) claim(d *detached) {
	r := d.DetachedRecord
	st.do(save{Record{Name: d.Mesh.Label(), Detached: &r}})
	st.do(take{r})
}

// took takes what came of that. A mesh that is another's or has ended is none of the system's; one whose hosts do not
// answer so far is still being asked.
func (st *state) took(e took) {
	d := st.current(e.mesh, e.epoch)
	switch {
	case d == nil:
	case e.again:
		d.why = e.err.Error()
	case e.err != nil:
		st.drop(d, e.err)
	default:
		d.taken, d.why = true, ""
		for _, to := range d.waiters {
			st.answer(to, d.owned(), nil)
		}
		d.waiters = nil
		st.do(told{world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.detach", why: "its owner is the system controller, in epoch " + fmt.Sprint(d.Now.Epoch)})
	}
}

// current is a detached mesh, in the epoch of today.
func (st *state) current(mesh subjects.MeshID, epoch uint64) *detached {
	if d := st.detached[mesh.Label()]; d != nil && d.Mesh == mesh && d.Now.Epoch == epoch {
		return d
	}
	return nil
}

// drop forgets a mesh, and says why to who still waits.
func (st *state) drop(d *detached, why error) {
	delete(st.detached, d.Mesh.Label())
	st.notGiving(d)
	st.do(forget{world: d.Mesh.Label()})
	for _, to := range d.waiters {
		st.answer(to, nil, why)
	}
}

// over takes that a mesh has ended, or has another owner. That who adopts it has claimed it is no end: he may die before
// he confirms it.
func (st *state) over(e over) {
	if d := st.current(e.mesh, e.epoch); d != nil && !d.givenTo(e.by) {
		st.drop(d, nil)
		st.do(letGo{mesh: d.Mesh, why: e.why})
	}
}

// restoreDetached follows the owner in whose name the system had a mesh before.
func (st *state) restoreDetached(r DetachedRecord) {
	d := &detached{DetachedRecord: r, since: st.now}
	st.detached[r.Mesh.Label()] = d
	st.follow(d)
}

// follow begins the next epoch of a mesh: whoever owned it in the name of the system before, or was adopting it, acts no
// more.
func (st *state) follow(d *detached) {
	last := d.Now
	d.Before = append(d.Before, d.Now)
	if d.Giving != nil {
		last = *d.Giving
		d.Before = append(d.Before, last)
	}
	d.Before = d.Before[max(0, len(d.Before)-maxBefore):]
	d.Now, d.Giving, d.taken = agent.Claim{Epoch: last.Epoch + 1, Owner: st.ownerOf(d.Mesh)}, nil, false
	st.notGiving(d)
	st.claim(d)
}

// maxBefore is how many terms may end before the hosts of a mesh have heard of one.
const maxBefore = 16

// mine reports whether a claim that a host has heard of is one that the system follows.
func (r DetachedRecord) mine(c agent.Claim) bool {
	before := slices.ContainsFunc(r.Before, func(b agent.Claim) bool { return of(b, c) })
	return c == r.Given || c == r.Now || before
}

// of reports whether a claim is one that was told of, by a program that had not made its owner then.
func of(told, c agent.Claim) bool {
	return told.Epoch == c.Epoch && told.Owner.Proc == c.Owner.Proc
}

// stopDetached ends what is detached, with the system.
func (st *state) stopDetached(why string) {
	for _, name := range slices.Sorted(maps.Keys(st.detached)) {
		d := st.detached[name]
		st.drop(d, fmt.Errorf("the system is being stopped: %s", why))
		st.do(letGo{mesh: d.Mesh, why: why, stop: true})
	}
}

// showDetached is what is detached, by name.
func (st *state) showDetached() (out []DetachedState) {
	for _, name := range slices.Sorted(maps.Keys(st.detached)) {
		d := st.detached[name]
		why := d.why
		if d.Giving != nil {
			why = "it is being adopted by " + d.Giving.Owner.String()
		}
		out = append(out, DetachedState{Mesh: d.Mesh, Claim: d.Now, For: st.now.Sub(d.since), Reason: why, Lease: d.Lease})
	}
	return out
}
