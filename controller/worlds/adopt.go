package worlds

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
)

// giveWithin is how long who adopts a mesh has to take it over and to confirm that, and half its lease at most: should
// he die, the hosts have not ended it when the system takes it back.
const giveWithin = 10 * time.Second

// window is that time.
func (d *detached) window() time.Duration {
	if d.Lease > 0 {
		return min(giveWithin, d.Lease/2)
	}
	return giveWithin
}

// givenTo reports whether a claim is that of who adopts the mesh.
func (d *detached) givenTo(c agent.Claim) bool { return d.Giving != nil && of(*d.Giving, c) }

// adopt gives a mesh away, to who knows its epoch: one at a time. The system owns it until he has taken it over, which he
// can in no epoch but the next, and has confirmed that.
func (st *state) adopt(e adopt) {
	d := st.detached[e.Mesh.Label()]
	switch {
	case d == nil || d.Mesh != e.Mesh:
		st.answer(e.from, nil, &NotFoundError{fmt.Sprintf("detached mesh %s", e.Mesh)})
	case e.Claim.Epoch != d.Now.Epoch:
		st.answer(e.from, nil, d.fenced(e.Claim))
	case !e.Claim.Owner.IsValid():
		st.answer(e.from, nil, fmt.Errorf("adopt %s: want who adopts it", e.Mesh))
	case d.Giving != nil:
		st.answer(e.from, nil, &agent.FencedError{ID: d.Mesh.String(), At: atSystem, Asked: e.Claim, Has: *d.Giving})
	case !d.taken:
		st.answer(e.from, nil, fmt.Errorf("mesh %s is being handed over: %s", e.Mesh, d.why))
	default:
		d.Giving = &agent.Claim{Epoch: d.Now.Epoch + 1, Owner: e.Claim.Owner}
		d.until = st.now.Add(d.window())
		st.giving = append(st.giving, d)
		st.do(save{Record{Name: d.Mesh.Label(), Detached: new(d.DetachedRecord)}})
		st.answer(e.from, Adopted{d.Detaching, d.Now}, nil)
	}
}

// confirm lets a mesh go that its adopter has. One that is not there is not the system's any more, which may be because
// the answer to the first word of it was lost.
func (st *state) confirm(e confirm) {
	d := st.detached[e.Mesh.Label()]
	switch {
	case d == nil || d.Mesh != e.Mesh:
		st.answer(e.from, nil, nil)
	case !d.givenTo(e.Claim):
		st.answer(e.from, nil, d.fenced(e.Claim))
	default:
		st.drop(d, nil)
		st.do(letGo{mesh: d.Mesh, why: "adopted by " + e.Claim.Owner.String()})
		st.answer(e.from, nil, nil)
		st.do(told{world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.adopt", why: "it is adopted by " + e.Claim.Owner.String()})
	}
}

// takeBack follows who did not confirm in time that he has a mesh.
func (st *state) takeBack() {
	for _, d := range slices.Clone(st.giving) {
		if !st.now.Before(d.until) {
			to := d.Giving.Owner
			st.do(told{world: d.Mesh.Label(), mesh: d.Mesh, step: "mesh.adopt.lapse", why: fmt.Sprintf("%s did not confirm within %s that it has it", to, d.window())})
			st.do(letGo{mesh: d.Mesh, why: "it is taken back"})
			st.follow(d)
		}
	}
}

// notGiving ends that somebody adopts a mesh.
func (st *state) notGiving(d *detached) {
	st.giving = slices.DeleteFunc(st.giving, func(x *detached) bool { return x == d })
}
