package cast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// A process that ends and is started again is another proc, of the next generation. A cast asks the procs of
// which its caller has heard last, and its header says which these are: so everybody on the way home means the
// same ones, whatever he has heard himself (CAST-10).

// laterPort is where a caller hears who has a rank after whom it asked.
const laterPort = "later"

// latest is who has the rank of a proc now, as far as p has heard; a process begins again as a whole.
func latest(p *actor.Proc, id subjects.ProcID) subjects.ProcID {
	if p != nil {
		id.Gen = p.Latest(id.Lead()).Gen
	}
	return id
}

// over reports whether a proc is known to be gone.
func over(p *actor.Proc, id subjects.ProcID) bool {
	_, down := p.Down(id)
	_, later := p.Successor(id)
	return down || later
}

// ended are the ranks whose procs, of those that a cast asks, are known to be gone.
func (t tree) ended(p *actor.Proc) (all []lost) {
	add := func(id subjects.ProcID, reason string) {
		if gone := t.of(id); gone.Count > 0 {
			all = append(all, lost{gone, actor.Unsent(&actor.Error{Code: actor.CodeProcDead, Text: "the proc is gone: " + reason})})
		}
	}
	for _, e := range p.Downs(t.place.Mesh) {
		add(e.Proc(), cmp.Or(e.Reason, e.Status))
	}
	for _, e := range p.Successors(t.place.Mesh) {
		before := e.Proc()
		before.Gen--
		add(before, superseded(e.Proc()))
	}
	return all
}

func superseded(by subjects.ProcID) string {
	return fmt.Sprintf("generation %d has its rank", by.Gen)
}

// stale reports whether a cast asks for a proc that had a rank of this process before.
func (r *Router) stale(h *header, view int) bool { return genAt(h.Gens, view) < r.p.ID().Gen }

// refuse says that whom a cast asks for are over, and tells its caller who has their ranks. It came by a
// subject of the mesh, and not on a link to this process: so nobody waits for a word on whether it arrived.
func (r *Router) refuse(from subjects.ActorID, e *wire.Envelope, h *header, view, end int) error {
	caller := from.Proc.Lead().Actor(routerActor).Port(laterPort)
	r.p.AnswerWith(routerActor, caller, actor.Answer{}, nil)
	if view = h.Skip.after(view); view >= end {
		return nil
	}
	answer, _, err := r.answers(sent{}, e, h, view)
	if err != nil || answer == nil {
		return err
	}
	for ; view < end; view = h.Skip.after(view + 1) {
		asked := h.tree(r.place).proc(view)
		answer(view, actor.Answer{Err: &actor.Error{
			Code: actor.CodeProcDead, Actor: asked.String(), Text: "the proc is gone: " + superseded(r.p.ID()),
		}})
	}
	return nil
}

// later takes the word of a proc that it has a rank.
func (r *Router) later(in actor.Incoming) { r.runs(in.From.Proc) }

// runs has this process know that a proc runs.
func (r *Router) runs(id subjects.ProcID) {
	r.p.Learn(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Running), At: time.Now(),
		Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), Seat: int(id.Seat),
	})
}
