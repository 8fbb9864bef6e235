package mesh

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

// rankStates are the latest states of a mesh's ranks, merged from lists and events that arrive in
// any order, twice, or not at all. Only step changes them.
//
// The owner of a mesh numbers its events: they are decisions, and a number that is missing shows a
// loss. Hosts and procs report incarnations without numbers. A later generation then implies the
// end of the earlier one.
type rankStates struct {
	mesh    string // the ID of the mesh of procs; "": hosts
	actors  string // their name: the end of a proc is that of its actor; "": procs or hosts
	ranks   int    // of the mesh, as far as the source tells; a Shrink removes some
	listed  bool   // the first list is complete
	version uint64 // every event up to this number is merged
	newest  uint64 // the greatest number of an event so far
	latest  map[int]actor.Event
}

// eventList is a source's list of the latest events of ranks.
type eventList struct {
	events  []actor.Event
	version uint64 // with these events, every event up to this number is known; 0: no numbers
	more    bool   // another page follows
	ranks   int    // of the mesh at this version; 0: it keeps its ranks
}

// step merges an actor.Event or an eventList. It returns the changes, and whether some are missing.
// A rank's end is a change once in each generation, also if a list brings it. Another state of a
// rank is a change unless it was so before the watch began.
func (r *rankStates) step(arrived any) (changes []actor.Event, behind bool) {
	switch in := arrived.(type) {
	case actor.Event:
		in.Each(func(e actor.Event) { changes = append(changes, r.mergeEvent(e)...) })
	case eventList:
		for _, run := range in.events {
			run.Each(func(e actor.Event) { changes = append(changes, r.merge(e, r.listed)...) })
		}
		r.version = max(r.version, in.version)
		r.listed = r.listed || !in.more
		if in.ranks > 0 && !in.more && r.newest <= in.version {
			changes = append(changes, r.truncate(in.ranks)...)
		}
	}
	r.newest = max(r.newest, r.version)
	return changes, r.version < r.newest
}

// truncate ends the ranks that a Shrink has removed, as far as no event has. Their numbers may come
// back with later generations.
func (r *rankStates) truncate(ranks int) (changes []actor.Event) {
	for rank := ranks; rank < r.ranks; rank++ {
		last, known := r.latest[rank]
		if !known {
			last = actor.Event{Kind: actor.KindProc, Mesh: r.mesh, Rank: rank, Actor: r.actors}
			if r.actors != "" {
				last.Kind = actor.KindActor
			}
		}
		if !last.Terminal() {
			changes = append(changes, endOf(last, actor.Stopped, shrunkByUser))
		}
		delete(r.latest, rank)
	}
	r.ranks = ranks
	return changes
}

// mergeEvent merges an event that was published.
func (r *rankStates) mergeEvent(e actor.Event) []actor.Event {
	r.newest = max(r.newest, e.Seq)
	r.ranks = max(r.ranks, e.Rank+1)
	switch {
	case e.Seq == 0:
		return r.merge(e, false)
	case e.Seq <= r.version:
		return nil
	case e.Seq == r.version+1:
		r.version++
	}
	return r.merge(e, true)
}

// merge merges the state of one rank. isChange: a first state that is no end is a change, too.
func (r *rankStates) merge(e actor.Event, isChange bool) (changes []actor.Event) {
	if e.Step == agent.StepFenced {
		return []actor.Event{e}
	}
	last, known := r.latest[e.Rank]
	if r.actors != "" && e.Kind == actor.KindProc {
		if !known || last.Terminal() {
			return nil
		}
		e.Kind = actor.KindActor
		e.Actor = r.actors
	}
	if known && !supersedes(e, last) {
		return nil
	}
	if known && e.Seq == 0 && e.Gen > last.Gen && !last.Terminal() {
		changes = append(changes, endOf(last, actor.Failed, "replaced by another generation"))
	}
	r.latest[e.Rank] = e
	if e.Terminal() || isChange && e.Seq > 0 || known {
		changes = append(changes, e)
	}
	return changes
}

// supersedes reports whether an event of a rank is later than another one. The end of a generation
// is its last event.
func supersedes(e, last actor.Event) bool {
	if e.Gen != last.Gen {
		return e.Gen > last.Gen
	}
	return !last.Terminal() && (e.Terminal() || e.Seq > last.Seq)
}

// endOf returns the end of an incarnation that no event reported.
func endOf(last actor.Event, status actor.Status, reason string) actor.Event {
	return actor.Event{
		Kind: last.Kind, Status: string(status), Mesh: last.Mesh, Rank: last.Rank, Gen: last.Gen,
		ProcIndex: last.ProcIndex, Actor: last.Actor, Host: last.Host, Name: last.Name, Reason: reason,
		At: time.Now(),
	}
}

// ends returns the ended ranks, in the order of their events.
func (r *rankStates) ends() (ended []actor.Event) {
	for _, e := range r.latest {
		if e.Terminal() {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b actor.Event) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Rank, b.Rank))
	})
	return ended
}

// live returns the ranks that have not ended, in order.
func (r *rankStates) live() (ranks []int) {
	for _, rank := range slices.Sorted(maps.Keys(r.latest)) {
		if !r.latest[rank].Terminal() {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// haveEnded reports whether every rank of a region has ended.
func (r *rankStates) haveEnded(region shape.Region) bool {
	for _, rank := range region.Ranks() {
		if e, known := r.latest[rank]; !known || !e.Terminal() {
			return false
		}
	}
	return true
}

// clone returns a copy that step of the original does not change.
func (r *rankStates) clone() rankStates {
	c := *r
	c.latest = maps.Clone(r.latest)
	return c
}
