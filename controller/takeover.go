package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// TakeOver returns the spec of the controller that takes over a mesh of procs, from the hosts'
// states (agent.Get). expected is the epoch of the former owner; 0 takes any. If another program
// has already taken over, the error is a *agent.FencedError. The new owner sets policy, lease and
// name.
//
// The controller takes the mesh over with Create. From then on hosts refuse the former owner, and
// it stops acting at the next refusal (CTL-10).
func TakeOver(id subjects.MeshID, states []agent.State, expected uint64) (Spec, error) {
	var m *agent.Mesh
	var has agent.Claim
	newest := map[int]agent.State{}
	for _, s := range states {
		if s.ID != id.String() {
			continue
		}
		if s.Mesh != nil {
			claim := claimOf(s)
			if m == nil || cmp.Or(claim.Compare(has), cmp.Compare(s.Mesh.Revision, m.Revision)) > 0 {
				m = s.Mesh
				has = claim
			}
		}
		if known, ok := newest[s.Rank]; !ok || s.Gen > known.Gen {
			newest[s.Rank] = s
		}
	}
	switch {
	case m == nil:
		return Spec{}, fmt.Errorf("mesh %s: no host has it", id)
	case m.World != nil:
		return Spec{}, fmt.Errorf("mesh %s belongs to world %s: its owner is the system controller",
			id, m.World.World)
	case expected != 0 && has.Epoch != expected:
		requested := agent.Claim{Epoch: expected, Owner: m.Owner}
		return Spec{}, &agent.FencedError{ID: id.String(), Agent: "hosts", Requested: requested, Current: has}
	case !anyAlive(newest, m.Extent.NumRanks()):
		return Spec{}, fmt.Errorf("mesh %s has ended", id)
	}
	s := Spec{Procs: *m, Region: m.Extent.Region(), Epoch: has.Epoch + 1, TakeOver: true}
	s.Procs.Hosts = slices.Clone(m.Hosts)
	// Not every host knows of a spare that has replaced a host.
	for _, rank := range slices.Sorted(maps.Keys(newest)) {
		at := rank / m.PerHost
		if at < len(s.Procs.Hosts) && newest[rank].Gen > 0 && newest[rank].Proc != nil {
			if h, err := subjects.ParseHostID(newest[rank].Proc.Host); err == nil {
				s.Procs.Hosts[at] = h
			}
		}
	}
	return s, nil
}

func anyAlive(states map[int]agent.State, ranks int) bool {
	for rank, s := range states {
		if rank < ranks && !s.Status.Phase.Terminal() {
			return true
		}
	}
	return false
}

// claimOf returns the owner's claim in a host's state.
func claimOf(s agent.State) agent.Claim {
	if s.Claim != nil {
		return *s.Claim
	}
	return agent.Claim{Owner: s.Mesh.Owner}
}

// claim returns the claim in the controller's orders.
func (s Spec) claim() agent.Claim {
	return agent.Claim{Epoch: max(s.Epoch, 1), Owner: s.Procs.Owner}
}

// takeShare takes over a host's share of a mesh, or the actors, and returns their statuses.
func (o orders) takeShare(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (any, error) {
	said, err := o.renewShare(ctx, p, m, host, nil)
	if err != nil || o.mesh.Actors != nil {
		return said, err
	}
	states, err := agent.Get.Call(ctx, hostAgent(p, m.Hosts[host]), agent.GetRequest{ID: o.mesh.id()})
	return takenShare{host, states}, err
}

// takeOverMesh takes over the mesh. It starts no rank.
func (c *controller) takeOverMesh(ctx *actor.Context) {
	p := ctx.Proc()
	m := c.spec.Procs
	o := c.orders
	for _, host := range c.shares() {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, o.spawnLimit())
			defer cancel()
			what, err := o.takeShare(work, p, m, host)
			return func(ctx *actor.Context) {
				if h, ok := what.(takenShare); ok && err == nil {
					noteGenerations(p, m, h.states)
				}
				if c.checkFenced(ctx, err) {
					return
				}
				if err == nil || c.spec.Actors != nil {
					c.handle(ctx, what)
				}
				if err != nil {
					c.onCreateError(ctx, host, err)
				}
			}
		})
	}
}

// noteGenerations records in the process the present procs of ranks past their first generation.
func noteGenerations(p *actor.Proc, m agent.Mesh, states []agent.State) {
	for _, s := range states {
		if s.Gen > 0 && !s.Status.Phase.Terminal() {
			id := m.ProcID(s.Rank, s.Gen)
			p.Members().NoteGeneration(actor.Event{
				Kind: actor.KindProc, Status: string(actor.Running), Mesh: s.ID, Rank: s.Rank, Gen: s.Gen,
				ProcIndex: int(id.Index), PerProcess: m.PerProcess, Host: hostName(s), At: time.Now(),
			})
		}
	}
}

func hostName(s agent.State) string {
	if s.Proc == nil {
		return ""
	}
	return s.Proc.Host
}

// takenShare is a host's share of a mesh after a takeover.
type takenShare struct {
	host   int
	states []agent.State
}

// handleTakenShare applies a host's share. Its ranks keep their generations; the new owner recovers
// the failed ones. Ranks unknown to the host are gone.
func (st *state) handleTakenShare(x *effects, h takenShare, now time.Time) {
	has := map[int]agent.State{}
	for _, s := range h.states {
		has[s.Rank] = s
	}
	for _, rank := range st.ranksOn(h.host) {
		_, base := st.hostIndex(rank)
		s, ok := has[base]
		switch gen := st.table.Gen(st.spec.id(), rank); {
		case !ok:
			s.Status = agent.Status{Phase: agent.Failed, Reason: "its host does not have it"}
		case s.Gen < gen: // an earlier event was newer
			continue
		case s.Gen > gen:
			st.table.BeginGeneration(st.spec.id(), rank, s.Gen, s.Status.Reason)
			st.rankState(rank) // the Report lists ranks that have a state
		}
		if ok && s.Status.Phase == agent.Failed { // the policy of the new owner applies to a rank that ran
			st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running})
		}
		st.advance(x, rank, s.Status, actor.Event{Reason: s.Status.Reason, At: now}, now)
	}
}

// fenced reports that agents refused an order because another owner took over.
type fenced struct{ by *agent.FencedError }

// fence records and reports the new owner. Afterwards the controller does not act (CTL-10).
func (st *state) fence(x *effects, by *agent.FencedError, now time.Time) {
	st.fenced = by
	code, detail := by.Detail()
	e := actor.Event{
		Kind: actor.KindMesh, Step: agent.StepFenced, Code: code, Detail: detail, Status: st.phase().String(),
		Reason: by.Error(), Mesh: st.spec.Procs.ID.String(), Actor: st.spec.actors(), Name: st.spec.Name,
		Count: st.spec.Region.NumRanks(), At: now,
	}
	x.events = append(x.events, st.changes.add(wholeMesh, e))
}

// checkFenced reports whether an error means another owner, and if so stops acting.
func (c *controller) checkFenced(ctx *actor.Context, err error) bool {
	by := agent.AsFenced(err)
	if by != nil && c.fenced == nil {
		c.handle(ctx, fenced{by})
		c.table.AnswerWaiters(c.spec.id())
		for host, waiting := range c.evacuationWaiters {
			for _, a := range waiting {
				a.Reply(agent.EvacuateResponse{}, by)
			}
			delete(c.evacuationWaiters, host)
		}
	}
	return by != nil
}
