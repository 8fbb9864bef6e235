package cast

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
)

// fate is the known state of one rank.
type fate uint8

const (
	waiting fate = iota
	answered
	failed
	missing
	skipped // not waited for
)

// collector is the state of one cast at its caller: the fate of every rank, and the values so far.
// It is pure: events change it and have no other effect.
type collector struct {
	placement    Placement
	region       shape.Region
	gens         []run // of those that are asked
	pending      int   // ranks still waiting
	newlySettled []int // ranks settled since the last drain, in order
	fates        []fate
	errs         map[int]error
	values       map[int]actor.Answer // of single ranks
	parts        []part               // of many, by rank
	rerouted     bool                 // see among
	deferred     []part               // see holds
	received     ranks                // of those that came since the last look at it; not in order
}

func newCollector(t Target) *collector {
	n := t.Region.NumRanks()
	return &collector{
		placement: t.Placement, region: t.Region, pending: n,
		fates: make([]fate, n), errs: map[int]error{}, values: map[int]actor.Answer{},
	}
}

// setFate gives a rank its fate; the first counts.
func (t *collector) setFate(rank int, f fate, err error) bool {
	if rank < 0 || rank >= len(t.fates) || t.fates[rank] != waiting {
		return false
	}
	t.fates[rank] = f
	t.pending--
	t.newlySettled = append(t.newlySettled, rank)
	if err != nil {
		t.errs[rank] = err
	}
	return true
}

// addAnswer takes one rank's answer.
func (t *collector) addAnswer(rank int, a actor.Answer) {
	if a.Err != nil {
		t.setFate(rank, failed, a.Err)
	} else if t.setFate(rank, answered, nil) {
		t.values[rank] = a
	}
}

// addContribution adds a folded contribution. A rank that was given up may still have answered.
func (t *collector) addContribution(c contribution) {
	if t.rerouted { // so that they are not waited for among the parts
		t.addFailures(c.failed)
	}
	for _, p := range c.parts {
		if t.rerouted && mustDefer(p.ranks, t.isPending) {
			t.deferred = append(t.deferred, p)
		} else {
			t.insertPart(p)
		}
	}
	t.addFailures(c.failed)
}

// insertPart puts a part among the others.
func (t *collector) insertPart(p part) {
	parts, gone, ok := mergePart(t.parts, p, t.rerouted)
	if !ok || t.hasAnswered(p.ranks) {
		return
	}
	t.parts = parts
	for _, other := range gone {
		for _, s := range other.ranks {
			for rank := s.First; rank < s.end(); rank++ {
				t.fates[rank] = waiting
				t.pending++
			}
		}
	}
	t.received = append(t.received, p.ranks...)
	for _, s := range p.ranks {
		for rank := s.First; rank < s.end(); rank++ {
			if !t.setFate(rank, answered, nil) {
				t.fates[rank] = answered
				delete(t.errs, rank)
			}
		}
	}
}

// isPending reports whether nothing was heard of a rank.
func (t *collector) isPending(rank int) bool { return t.fates[rank] == waiting }

// addFailures settles ranks without a value. A rank that another process gave up may still answer
// past it.
func (t *collector) addFailures(all []failure) {
	for _, f := range all {
		err := actor.FromWire(f.Error)
		fate := failed
		if err.Code == actor.CodeDeadline {
			fate = missing
			if t.rerouted {
				continue
			}
		}
		for _, s := range f.Ranks {
			for rank := s.First; rank < s.end(); rank++ {
				t.setFate(rank, fate, err)
			}
		}
	}
}

// hasAnswered reports whether some of the ranks have answered by themselves.
func (t *collector) hasAnswered(rs ranks) bool {
	for rank := range t.values {
		if rs.contains(rank) {
			return true
		}
	}
	return false
}

// expire ends the cast: silent ranks are missing.
func (t *collector) expire(err error) {
	for _, p := range t.deferred {
		t.insertPart(p)
	}
	for rank := range t.fates {
		t.setFate(rank, missing, err)
	}
}

// coverage sums the fates up.
func (t *collector) coverage() Coverage {
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

func (t *collector) failure(rank int) Failure {
	p, err := t.region.Extent().Point(rank)
	if err != nil {
		p = shape.Point{}
	}
	return Failure{Rank: rank, Point: p, Err: t.errs[rank]}
}

// addIncoming records an answer. It ignores invalid answers, and those that their sender may
// not give.
func (t *collector) addIncoming(in actor.Incoming) error {
	var r replyHeader
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil {
		return err
	}
	if !r.Folded {
		if t.isExpectedSender(r.Rank, in) {
			t.addAnswer(r.Rank, in.Answer())
		}
		return nil
	}
	c, err := r.decode(in, len(t.fates))
	if err != nil {
		return err
	}
	t.addContribution(c)
	return nil
}

// isExpectedSender reports whether the sender of a rank's answer is the addressed proc, or the
// first of its process. A later proc of the rank can report that the addressed one is over
// (CAST-10).
func (t *collector) isExpectedSender(rank int, in actor.Incoming) bool {
	base, err := t.region.BaseRank(rank)
	if err != nil {
		return false
	}
	id := t.placement.Proc(base)
	from := in.From.Proc
	id.Gen = genAt(t.gens, rank)
	if from.Gen > id.Gen && in.Envelope.Kind == wire.Failure {
		from.Gen = id.Gen
	}
	return from == id || from == id.Lead()
}

// takeSettled returns the ranks settled since the last call.
func (t *collector) takeSettled() []int {
	f := t.newlySettled
	t.newlySettled = nil
	return f
}
