package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// TakeOver is the spec of the controller that follows the owner of a mesh of procs, from what hosts say of it
// (agent.Get). expected is the epoch of the owner that is to be followed, 0: whichever it is. When another has
// followed that one already, the error is a *agent.FencedError. Policy, lease and name are the new owner's to say.
//
// The controller takes the mesh over with Create: whoever owned it before is refused by the hosts from then on, and
// stops acting when it hears so (CTL-10).
func TakeOver(id subjects.MeshID, states []agent.State, expected uint64) (Spec, error) {
	var m *agent.Mesh
	var has agent.Claim
	newest := map[int]agent.State{}
	for _, s := range states {
		if s.ID != id.String() {
			continue
		}
		if s.Mesh != nil {
			if claim := claimOf(s); m == nil || claim.Compare(has) > 0 {
				m, has = s.Mesh, claim
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
		return Spec{}, fmt.Errorf("mesh %s belongs to world %s: its owner is the system controller", id, m.World.World)
	case expected != 0 && has.Epoch != expected:
		return Spec{}, &agent.FencedError{ID: id.String(), At: "hosts", Asked: agent.Claim{Epoch: expected, Owner: m.Owner}, Has: has}
	case !slices.ContainsFunc(slices.Collect(maps.Values(newest)), func(s agent.State) bool { return !s.Status.Phase.Terminal() }):
		return Spec{}, fmt.Errorf("mesh %s has ended", id)
	}
	s := Spec{Procs: *m, Region: m.Extent.Region(), Epoch: has.Epoch + 1, Take: true}
	s.Procs.Hosts = slices.Clone(m.Hosts)
	for _, rank := range slices.Sorted(maps.Keys(newest)) { // a spare may have a place that others do not know of
		if at := rank / m.PerHost; at < len(s.Procs.Hosts) && newest[rank].Gen > 0 && newest[rank].Proc != nil {
			if h, err := subjects.ParseHostID(newest[rank].Proc.Host); err == nil {
				s.Procs.Hosts[at] = h
			}
		}
	}
	return s, nil
}

// claimOf is who owns what a host speaks of.
func claimOf(s agent.State) agent.Claim {
	if s.Claim != nil {
		return *s.Claim
	}
	return agent.Claim{Owner: s.Mesh.Owner}
}

// claim is in whose name the controller gives orders.
func (s Spec) claim() agent.Claim {
	return agent.Claim{Epoch: max(s.Epoch, 1), Owner: s.Procs.Owner}
}

// take takes a host's share of a mesh over, or the actors, and says how they are.
func (c *controller) take(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (any, error) {
	o, err := c.keep(ctx, p, m, host)
	if err != nil || c.spec.Actors != nil {
		return o, err
	}
	states, err := agent.Get.Call(ctx, hostAgent(p, m.Hosts[host]), agent.Query{ID: c.spec.id()})
	return taken{host, states}, err
}

// takeAll takes the mesh over: nothing is started.
func (c *controller) takeAll(ctx *actor.Context) {
	p, m := ctx.Proc(), c.spec.Procs
	for _, host := range c.shares() {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, c.spawnLimit())
			defer cancel()
			what, err := c.take(work, p, m, host)
			return func(ctx *actor.Context) {
				if h, ok := what.(taken); ok && err == nil {
					learn(p, m, h.states)
				}
				if c.refused(ctx, err) {
					return
				}
				if err == nil || c.spec.Actors != nil {
					c.hear(ctx, what)
				}
				if err != nil {
					c.notCreated(ctx, host, err)
				}
			}
		})
	}
}

// learn tells the process which procs have the ranks of a mesh now, where they are not the first.
func learn(p *actor.Proc, m agent.Mesh, states []agent.State) {
	for _, s := range states {
		if s.Gen > 0 && !s.Status.Phase.Terminal() {
			id := m.Proc(s.Rank, s.Gen)
			p.Learn(actor.Event{
				Kind: actor.KindProc, Status: string(actor.Running), Mesh: s.ID, Rank: s.Rank, Gen: s.Gen, Seat: int(id.Seat),
				PerProcess: m.PerProcess, Host: hostOf(s), At: time.Now(),
			})
		}
	}
}

func hostOf(s agent.State) string {
	if s.Proc == nil {
		return ""
	}
	return s.Proc.Host
}

// taken is what a host has of a mesh that was taken over.
type taken struct {
	host   int
	states []agent.State
}

// takenOver takes what a host has: its ranks go on in the generation that they have, and those that have failed are
// the new owner's to recover. Those that it does not know are gone.
func (st *state) takenOver(x *effects, h taken, now time.Time) {
	has := map[int]agent.State{}
	for _, s := range h.states {
		has[s.Rank] = s
	}
	for _, rank := range st.ranksOn(h.host) {
		_, base := st.host(rank)
		s, ok := has[base]
		switch gen := st.table.Gen(st.spec.id(), rank); {
		case !ok:
			s.Status = agent.Status{Phase: agent.Failed, Reason: "its host does not have it"}
		case s.Gen < gen: // what has become of it since was heard before
			continue
		case s.Gen > gen:
			st.table.Again(st.spec.id(), rank, s.Gen, s.Status.Reason)
			st.seat(rank) // it is to be reported
		}
		if ok && s.Status.Phase == agent.Failed { // it ran, and the policy of the new owner counts
			st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running})
		}
		st.advance(x, rank, s.Status, actor.Event{Reason: s.Status.Reason, At: now}, now)
	}
}

// fenced is that agents have refused an order, for another owner has followed this one.
type fenced struct{ by *agent.FencedError }

// fence is the last thing that a controller does for its mesh (CTL-10).
func (st *state) fence(x *effects, by *agent.FencedError, now time.Time) {
	st.fenced = by
	code, detail := by.Detail()
	e := actor.Event{
		Kind: actor.KindMesh, Step: agent.Fencing, Code: code, Detail: detail, Status: st.phase().String(), Reason: by.Error(), Mesh: st.spec.Procs.ID.String(),
		Actor: st.spec.actors(), Name: st.spec.Name, Count: st.spec.Region.NumRanks(), At: now,
	}
	st.ends = append(st.ends, e) // who asks later is told, too
	x.news = append(x.news, e)
}

// refused reports whether an error says that another owner has the mesh, and stops acting then.
func (c *controller) refused(ctx *actor.Context, err error) bool {
	by := agent.Fenced(err)
	if by != nil && c.fenced == nil {
		c.hear(ctx, fenced{by})
		c.table.GiveUp(c.spec.id())
		for host, waiting := range c.emptied {
			for _, a := range waiting {
				a.Reply(agent.Vacated{}, by)
			}
			delete(c.emptied, host)
		}
	}
	return by != nil
}
