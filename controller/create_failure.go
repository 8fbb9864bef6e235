package controller

import (
	"errors"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// statusesAfterFailure yields the status of each rank of the share that is still initializing, in
// order. It is Failed after a refusal, or Initializing with the reason if the outcome is unknown
// (CTL-8).
func (r *meshRecord) statusesAfterFailure(f createFailure) iter.Seq2[int, agent.Status] {
	first := f.host * r.spec.Procs.PerHost
	last := first + r.spec.Procs.PerHost
	if r.spec.Actors != nil {
		first = f.first
		last = r.spec.Procs.Extent.NumRanks()
	}
	perRank := errorsByRank(f.err)
	return func(yield func(int, agent.Status) bool) {
		for base := first; base < last; base++ {
			rank, in := r.spec.Region.ViewRank(base)
			if !in || r.table.Status(r.spec.id(), rank).Phase != agent.Initializing {
				continue
			}
			why := f.err
			if perRank != nil {
				why = perRank[rank]
				if why == nil {
					continue // this rank replied
				}
			}
			s := agent.Status{Phase: agent.Failed, Reason: why.Error()}
			if !isDefinite(why) {
				s.Phase = agent.Initializing
			}
			if !yield(rank, s) {
				return
			}
		}
	}
}

// errorsByRank returns a cast's error for each rank without a reply. It returns nil if err concerns
// the whole cast.
func errorsByRank(err error) map[int]error {
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok {
		return nil
	}
	by := map[int]error{}
	for _, fs := range [][]cast.Failure{partial.Coverage.Failed, partial.Coverage.Missing} {
		for _, f := range fs {
			by[f.Rank] = f.Err
		}
	}
	return by
}

// isDefinite reports whether err means that the operation did not take place.
func isDefinite(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	if !ok {
		return true // nothing was sent
	}
	switch e.Code {
	case actor.CodeDeadline, actor.CodeCanceled, actor.CodeLinkBroken:
		return false
	}
	return true
}
