package worlds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
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
}

// minLease is the least lease of a detached mesh: another system controller is to have taken over within it.
const minLease = 30 * time.Second

// maxDetachedHosts bounds what a record of a detached mesh takes.
const maxDetachedHosts = 1 << 16

// NameTakenError refuses a name that a live mesh or world has.
type NameTakenError struct {
	Name, Kind, Holder string // the holder is the ID of its mesh
}

const nameTaken = "name %s is taken by %s %s"

func (e *NameTakenError) Error() string { return fmt.Sprintf(nameTaken, e.Name, e.Kind, e.Holder) }

// NameTaken is the *NameTakenError that an error is or holds, also when it came over the bus, where errors travel as
// text; nil: there is none.
func NameTaken(err error) *NameTakenError {
	if t, ok := errors.AsType[*NameTakenError](err); ok {
		return t
	}
	var t NameTakenError
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Code == actor.CodeHandler {
		if _, err := fmt.Sscanf(e.Text, nameTaken, &t.Name, &t.Kind, &t.Holder); err == nil {
			return &t
		}
	}
	return nil
}

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
	d, w := st.detached[name], st.worlds[name]
	switch {
	case w != nil:
		return nil, &NameTakenError{name, "world", w.meshText(name)}
	case d == nil:
		return nil, nil
	case d.Mesh != e.Mesh:
		return nil, &NameTakenError{name, "mesh", d.Mesh.String()}
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
	st.do(forget{world: d.Mesh.Label()})
	for _, to := range d.waiters {
		st.answer(to, nil, why)
	}
}

// over takes that a mesh has ended, or has another owner.
func (st *state) over(e over) {
	if d := st.current(e.mesh, e.epoch); d != nil {
		st.drop(d, nil)
		st.do(letGo{mesh: d.Mesh, why: e.why})
	}
}

// adopt gives a mesh away, to who knows its epoch. It has no owner until he has taken it over, which he can in no
// epoch but the next.
func (st *state) adopt(e adopt) {
	d := st.detached[e.Mesh.Label()]
	switch {
	case d == nil || d.Mesh != e.Mesh:
		st.answer(e.from, nil, &NotFoundError{fmt.Sprintf("detached mesh %s", e.Mesh)})
	case e.Claim.Epoch != d.Now.Epoch:
		st.answer(e.from, nil, d.fenced(e.Claim))
	case !d.taken:
		st.answer(e.from, nil, fmt.Errorf("mesh %s is being handed over: %s", e.Mesh, d.why))
	default:
		st.drop(d, nil)
		st.do(letGo{mesh: d.Mesh, why: "adopted by " + e.Claim.Owner.String()})
		st.answer(e.from, Adopted{d.Detaching, d.Now}, nil)
		st.do(told{world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.adopt", why: "it is adopted by " + e.Claim.Owner.String()})
	}
}

// restoreDetached begins the next epoch of a mesh: whoever owned it in the name of the system before acts no more.
func (st *state) restoreDetached(r DetachedRecord) {
	d := &detached{DetachedRecord: r, since: st.now}
	d.Before = append(d.Before, r.Now)
	d.Before = d.Before[max(0, len(d.Before)-maxBefore):]
	d.Now = agent.Claim{Epoch: r.Now.Epoch + 1, Owner: st.ownerOf(r.Mesh)}
	st.detached[r.Mesh.Label()] = d
	st.claim(d)
}

// maxBefore is how many terms may end before the hosts of a mesh have heard of one.
const maxBefore = 16

// mine reports whether a claim that a host has heard of is one that the system follows.
func (r DetachedRecord) mine(c agent.Claim) bool {
	return c == r.Given || c == r.Now || slices.Contains(r.Before, c)
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
		out = append(out, DetachedState{Mesh: d.Mesh, Claim: d.Now, For: st.now.Sub(d.since), Reason: d.why, Lease: d.Lease})
	}
	return out
}
