package cast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A process that ends and restarts is another proc, of the next generation. A cast addresses the
// newest procs known to its caller, and its header has their generations. So every process on the
// way home means the same procs, whatever it knows itself (CAST-10).

// successorPort is the port on which a caller learns a rank's later proc.
const successorPort = "later"

// latestProc is the newest proc of a rank known to p. A process restarts as a whole.
func latestProc(p *actor.Proc, id subjects.ProcID) subjects.ProcID {
	id.Gen = p.Members().LatestGeneration(id.Lead()).Gen
	return id
}

// isEnded reports whether a proc is known to be gone.
func isEnded(p *actor.Proc, id subjects.ProcID) bool {
	_, down := p.Members().Down(id)
	_, later := p.Members().Successor(id)
	return down || later
}

// endedRanks are the ranks whose addressed procs are known to be gone.
func (t tree) endedRanks(p *actor.Proc) (all []lostRanks) {
	add := func(gone shape.RankRun, reason string) {
		if gone.Count > 0 {
			all = append(all, lostRanks{gone,
				actor.MarkUnsent(&actor.Error{Code: actor.CodeProcDead, Text: "the proc is gone: " + reason})})
		}
	}
	for _, e := range p.Members().DeadProcs(t.placement.Mesh) {
		add(t.ranksLostWith(e.Proc()), cmp.Or(e.Reason, e.Status))
	}
	for _, e := range p.Members().Successors(t.placement.Mesh) {
		add(t.before(e.Proc()), supersededReason(e.Proc()))
	}
	return all
}

func supersededReason(by subjects.ProcID) string {
	return fmt.Sprintf("generation %d has its rank", by.Gen)
}

// isStale reports whether a cast addresses an earlier proc of a rank of this process.
func (r *Router) isStale(h *header, view int) bool { return genAt(h.Gens, view) < r.p.ID().Gen }

// rejectStale reports that the addressed procs are over, and tells the caller their successors. The
// cast came by a subject of the mesh, not a link, so no sender awaits its acknowledgement.
func (r *Router) rejectStale(from subjects.ActorID, e *wire.Envelope, h *header, view, end int) error {
	caller := from.Proc.Lead().Actor(routerActor).Port(successorPort)
	r.p.Casts().SendAnswer(routerActor, caller, actor.Answer{}, nil)
	view = h.skip.FirstAbsent(view)
	if view >= end {
		return nil
	}
	answer, _, err := r.answerSink(castOrigin{}, e, h, view)
	if err != nil || answer == nil {
		return err
	}
	for ; view < end; view = h.skip.FirstAbsent(view + 1) {
		asked := h.tree(r.placement).proc(view)
		answer(view, actor.Answer{Err: &actor.Error{
			Code: actor.CodeProcDead, Actor: asked.String(), Text: "the proc is gone: " + supersededReason(r.p.ID()),
		}})
	}
	return nil
}

// handleSuccessor records the proc that reports itself as a rank's holder.
func (r *Router) handleSuccessor(in actor.Incoming) { r.noteRunning(in.From.Proc) }

// noteRunning records that a proc runs.
func (r *Router) noteRunning(id subjects.ProcID) {
	r.p.Members().NoteGeneration(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Running), At: time.Now(),
		Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), ProcIndex: int(id.Index),
	})
}
