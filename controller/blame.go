package controller

import (
	"errors"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// blame reads a failure: for each rank of the share that is still initializing, in order, Failed
// when it was refused, or Initializing with the reason when nobody can tell (CTL-5).
func (st *state) blame(f failure) iter.Seq2[int, agent.Status] {
	first, last := f.host*st.spec.Procs.PerHost, (f.host+1)*st.spec.Procs.PerHost
	if st.spec.Actors != nil {
		first, last = 0, st.spec.Procs.Extent.NumRanks()
	}
	perRank := reasons(f.err)
	return func(yield func(int, agent.Status) bool) {
		for base := first; base < last; base++ {
			rank, in := st.spec.Region.ViewRank(base)
			if !in || st.table.Status(st.spec.id(), rank).Phase != agent.Initializing {
				continue
			}
			why := f.err
			if perRank != nil {
				if why = perRank[rank]; why == nil {
					continue // this rank answered
				}
			}
			s := agent.Status{Phase: agent.Failed, Reason: why.Error()}
			if !known(why) {
				s.Phase = agent.Initializing
			}
			if !yield(rank, s) {
				return
			}
		}
	}
}

// reasons is what a cast says about each rank without an answer; nil when err is about all of them.
func reasons(err error) map[int]error {
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

// known reports whether an error says that the operation did not take place.
func known(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	if !ok {
		return true // refused here, before anything was sent
	}
	switch e.Code {
	case actor.CodeDeadline, actor.CodeCanceled, actor.CodeLinkBroken:
		return false
	}
	return true
}
