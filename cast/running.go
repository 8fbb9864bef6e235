package cast

import (
	"cmp"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Running is a cast whose replies a process folds or gathers: its part of the cast. Ranks are those
// of Region. A process keeps nothing of casts without replies, and of those that are answered one
// by one (Stream, Choose).
type Running struct {
	ID              string // the port of its replies
	Actor, Endpoint string
	From            subjects.ActorID
	Since           time.Time // it reached the process; zero: unknown
	Deadline        time.Time
	Region          shape.Region
	Asked           shape.Ranks // of Region; none: all
	Gone            shape.Ranks // known to be gone: nobody waits for them
	// Ranks of this process.
	Answered, Failed, Waiting shape.Ranks
}

// RunningOf lists the casts that run in the process of p, oldest first and at most so many; more
// counts the others. Those among also are listed first, even if this process has replied.
func RunningOf(p *actor.Proc, also []string, most int) (all []Running, more int) {
	r, ok := p.Lead().Values().Get(routerKey{}).(*Router)
	if !ok || r.aggregations == nil {
		return nil, 0
	}
	fs := r.aggregations
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var found []*aggregation
	for _, f := range fs.active {
		if f.job.castID != "" && (!f.done || slices.Contains(also, f.job.castID)) {
			found = append(found, f)
		}
	}
	first := func(f *aggregation) int {
		if slices.Contains(also, f.job.castID) {
			return 0
		}
		return 1
	}
	slices.SortFunc(found, func(a, b *aggregation) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), a.job.since().Compare(b.job.since()),
			cmp.Compare(a.job.castID, b.job.castID))
	})
	more = max(0, len(found)-most)
	for _, f := range found[:len(found)-more] {
		all = append(all, f.running())
	}
	return all, more
}

// running is this process's part of a cast. The lock is held.
func (f *aggregation) running() Running {
	j := f.job
	out := Running{
		ID: j.castID, Actor: j.actor, Endpoint: j.endpoint, From: j.origin.from,
		Since: j.since(), Deadline: j.origin.deadline, Region: j.tree.region,
		Asked: j.asked, Gone: j.gone,
	}
	own := func(rs shape.Ranks) shape.Ranks {
		var w shape.RanksWriter
		for run := range rs.Within(j.lo, j.ownEnd) {
			w.Add(run.First, run.Count)
		}
		return w.Ranks()
	}
	if f.state != nil {
		if !f.done { // else it is being folded
			f.drainLocal()
		}
		out.Answered = own(f.state.ranksWith(answered))
		out.Failed = own(f.state.ranksWith(failed, missing))
		out.Waiting = own(f.state.ranksWith(waiting))
		return out
	}
	var sent replyHeader
	if wire.Unmarshal(f.ext, &sent) != nil { // never: it was encoded here
		return out
	}
	out.Answered = own(shape.UnionOf(sent.Parts...))
	for _, why := range sent.Failed {
		out.Failed = shape.UnionOf(out.Failed, own(why.Ranks))
	}
	return out
}
