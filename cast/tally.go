package cast

import (
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
)

// fate is what is known of one rank.
type fate uint8

const (
	waiting fate = iota
	answered
	failed
	missing
)

// tally is the state of one cast at its caller: the fate of every rank, and the values in hand.
// It is pure: events go in, nothing comes out but what it holds.
type tally struct {
	placement Placement
	region    shape.Region
	fold      bool
	open      int   // ranks still waiting
	fresh     []int // ranks settled since the last drain, in order
	fates     []fate
	errs      map[int]error
	values    map[int]actor.Answer // by rank; of a folding cast by the first rank of a host
}

func newTally(t Target, fold bool) *tally {
	n := t.Region.NumRanks()
	return &tally{
		placement: t.Placement, region: t.Region, fold: fold, open: n,
		fates: make([]fate, n), errs: map[int]error{}, values: map[int]actor.Answer{},
	}
}

// settle gives a rank its fate; the first counts.
func (t *tally) settle(rank int, f fate, err error) bool {
	if rank < 0 || rank >= len(t.fates) || t.fates[rank] != waiting {
		return false
	}
	t.fates[rank] = f
	t.open--
	t.fresh = append(t.fresh, rank)
	if err != nil {
		t.errs[rank] = err
	}
	return true
}

// answer takes one rank's answer.
func (t *tally) answer(rank int, a actor.Answer) {
	if a.Err != nil {
		t.settle(rank, failed, a.Err)
	} else if t.settle(rank, answered, nil) {
		t.values[rank] = a
	}
}

// answerHost takes one host's folded answer.
func (t *tally) answerHost(r rest, a actor.Answer) {
	first := -1
	for _, s := range r.Answered {
		for rank := s.First; rank < s.First+min(s.Count, len(t.fates)); rank++ {
			if a.Err != nil {
				t.settle(rank, failed, a.Err)
			} else if t.settle(rank, answered, nil) && first < 0 {
				first = rank
			}
		}
	}
	if first >= 0 {
		t.values[first] = a
	}
	for _, f := range r.Failed {
		err := actor.FromWire(f.Error)
		if err.Code == actor.CodeDeadline {
			t.settle(f.Rank, missing, err)
		} else {
			t.settle(f.Rank, failed, err)
		}
	}
}

// unreachable takes the word that a rank is gone. In a folding cast the answers of a host are lost
// with the rank that folds them.
func (t *tally) unreachable(rank int, err error) {
	base, berr := t.region.BaseRank(rank)
	if berr != nil {
		return
	}
	host := t.placement.host(base)
	folds := t.fold && t.folder(host) == rank
	t.settle(rank, failed, err)
	if !folds {
		return
	}
	for _, r := range hostRanks(t.placement, t.region, host) {
		t.settle(r, missing, &actor.Error{Code: actor.CodeProcDead, Text: "the proc that folded its host's answers died: " + reason(err)})
	}
}

// folder is the rank that folds the answers of a host: the first that was meant. A host whose
// folder has answered or died has nobody waiting, so a rank that fails later folds for nobody.
func (t *tally) folder(host int) int {
	for _, r := range hostRanks(t.placement, t.region, host) {
		if t.fates[r] == waiting {
			return r
		}
	}
	return -1
}

// expire ends the cast: whoever is silent is missing.
func (t *tally) expire(err error) {
	for rank := range t.fates {
		t.settle(rank, missing, err)
	}
}

// coverage sums the fates up.
func (t *tally) coverage() Coverage {
	c := Coverage{Asked: len(t.fates), base: t.placement.Extent, region: t.region}
	for rank, f := range t.fates {
		switch f {
		case answered:
			c.Answered++
		case failed:
			c.Failed = append(c.Failed, t.failure(rank))
		case missing, waiting:
			c.Missing = append(c.Missing, t.failure(rank))
		}
	}
	return c
}

func (t *tally) failure(rank int) Failure {
	p, err := t.region.Extent().Point(rank)
	if err != nil {
		p = shape.Point{}
	}
	return Failure{Rank: rank, Point: p, Err: t.errs[rank]}
}

// inOrder returns the values by rank.
func (t *tally) inOrder() []actor.Answer {
	ranks := make([]int, 0, len(t.values))
	for r := range t.values {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	out := make([]actor.Answer, len(ranks))
	for i, r := range ranks {
		out[i] = t.values[r]
	}
	return out
}

// hostRanks are the ranks of a region on one host, ascending.
func hostRanks(p Placement, r shape.Region, host int) []int {
	var out []int
	for base := host * p.PerHost; base < (host+1)*p.PerHost; base++ {
		if view, in := r.ViewRank(base); in {
			out = append(out, view)
		}
	}
	slices.Sort(out)
	return out
}

// take sorts one answer that came home into the tally. What does not decode is nobody's answer.
func (t *tally) take(in actor.Incoming) {
	var r rest
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil {
		return
	}
	if r.Folded {
		t.answerHost(r, in.Answer())
	} else {
		t.answer(r.Rank, in.Answer())
	}
}

// drain returns the ranks settled since the last call.
func (t *tally) drain() []int {
	f := t.fresh
	t.fresh = nil
	return f
}
