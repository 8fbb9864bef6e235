package cast

import (
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
	skipped // nobody waits for it
)

// tally is the state of one cast at its caller: the fate of every rank, and the values in hand.
// It is pure: events go in, nothing comes out but what it holds.
type tally struct {
	placement Placement
	region    shape.Region
	gens      []run // of those that are asked
	open      int   // ranks still waiting
	fresh     []int // ranks settled since the last drain, in order
	fates     []fate
	errs      map[int]error
	values    map[int]actor.Answer // of single ranks
	parts     []part               // of many, by rank
	around    bool                 // see among
	held      []part               // see holds
	heard     ranks                // of those that came since the last look at it; not in order
}

func newTally(t Target) *tally {
	n := t.Region.NumRanks()
	return &tally{
		placement: t.Placement, region: t.Region, open: n,
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

// contribute takes what was folded on the way. A rank that was given up may have answered all the same.
func (t *tally) contribute(c contribution) {
	if t.around { // so that they are not waited for among the parts
		t.fail(c.failed)
	}
	for _, p := range c.parts {
		if t.around && holds(p.ranks, t.waits) {
			t.held = append(t.held, p)
		} else {
			t.place(p)
		}
	}
	t.fail(c.failed)
}

// place puts a part among the others.
func (t *tally) place(p part) {
	parts, gone, ok := among(t.parts, p, t.around)
	if !ok || t.has(p.ranks) {
		return
	}
	t.parts = parts
	for _, other := range gone {
		for _, s := range other.ranks {
			for rank := s.First; rank < s.end(); rank++ {
				t.fates[rank] = waiting
				t.open++
			}
		}
	}
	t.heard = append(t.heard, p.ranks...)
	for _, s := range p.ranks {
		for rank := s.First; rank < s.end(); rank++ {
			if !t.settle(rank, answered, nil) {
				t.fates[rank] = answered
				delete(t.errs, rank)
			}
		}
	}
}

// waits reports whether nothing was heard of a rank.
func (t *tally) waits(rank int) bool { return t.fates[rank] == waiting }

// fail settles ranks without a value. Whom somebody else has given up may still answer past him.
func (t *tally) fail(all []failure) {
	for _, f := range all {
		err, fate := actor.FromWire(f.Error), failed
		if err.Code == actor.CodeDeadline {
			if fate = missing; t.around {
				continue
			}
		}
		for _, s := range f.Ranks {
			for rank := s.First; rank < s.end(); rank++ {
				t.settle(rank, fate, err)
			}
		}
	}
}

// has reports whether some of the ranks have answered by themselves.
func (t *tally) has(rs ranks) bool {
	for rank := range t.values {
		if rs.contains(rank) {
			return true
		}
	}
	return false
}

// expire ends the cast: whoever is silent is missing.
func (t *tally) expire(err error) {
	for _, p := range t.held {
		t.place(p)
	}
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

// take sorts one answer that came home into the tally. What does not decode, or is not the sender's to
// say, is nobody's answer.
func (t *tally) take(in actor.Incoming) error {
	var r rest
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil {
		return err
	}
	if !r.Folded {
		if t.asked(r.Rank, in) {
			t.answer(r.Rank, in.Answer())
		}
		return nil
	}
	c, err := r.decode(in, len(t.fates))
	if err != nil {
		return err
	}
	t.contribute(c)
	return nil
}

// asked reports whether who answers for a rank is who was asked, or the first of its process. A proc that has
// the rank after it can say that it is over (CAST-10).
func (t *tally) asked(rank int, in actor.Incoming) bool {
	base, err := t.region.BaseRank(rank)
	if err != nil {
		return false
	}
	id, from := t.placement.Proc(base), in.From.Proc
	if id.Gen = genAt(t.gens, rank); from.Gen > id.Gen && in.Envelope.Kind == wire.Failure {
		from.Gen = id.Gen
	}
	return from == id || from == id.Lead()
}

// drain returns the ranks settled since the last call.
func (t *tally) drain() []int {
	f := t.fresh
	t.fresh = nil
	return f
}
