package cast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// KindCount counts the casts of one kind that a process has made, with their outcomes. The kinds
// are gather, stream, reduce, send and choose; aggregates are of kind reduce. A cast that is
// refused before anything is sent does not count.
type KindCount struct {
	Kind      string `cbor:"1,keyasint" json:"kind"`
	Complete  uint64 `cbor:"2,keyasint,omitempty" json:"complete"`  // every rank answered
	Partial   uint64 `cbor:"3,keyasint,omitempty" json:"partial"`   // some did
	Failed    uint64 `cbor:"4,keyasint,omitempty" json:"failed"`    // none did
	Abandoned uint64 `cbor:"5,keyasint,omitempty" json:"abandoned"` // the caller left before the end

	RanksAsked   uint64        `cbor:"6,keyasint,omitempty" json:"ranks_asked"`
	RanksFailed  uint64        `cbor:"7,keyasint,omitempty" json:"ranks_failed"`
	RanksMissing uint64        `cbor:"8,keyasint,omitempty" json:"ranks_missing"` // not of abandoned casts
	Duration     time.Duration `cbor:"9,keyasint,omitempty" json:"duration"`      // of all
}

// Casts counts the casts of all outcomes.
func (c KindCount) Casts() uint64 { return c.Complete + c.Partial + c.Failed + c.Abandoned }

// Add adds up the counts of two processes.
func (c KindCount) Add(o KindCount) KindCount {
	return KindCount{
		Kind: c.Kind, Complete: c.Complete + o.Complete, Partial: c.Partial + o.Partial,
		Failed: c.Failed + o.Failed, Abandoned: c.Abandoned + o.Abandoned,
		RanksAsked: c.RanksAsked + o.RanksAsked, RanksFailed: c.RanksFailed + o.RanksFailed,
		RanksMissing: c.RanksMissing + o.RanksMissing, Duration: c.Duration + o.Duration,
	}
}

// CountsOf returns the counts of a proc's process, in the order of their kinds. Only the first proc
// of a process has them.
func CountsOf(p *actor.Proc) []KindCount {
	r, ok := p.Values().Get(routerKey{}).(*Router)
	if !ok || r.p != p {
		return nil
	}
	return r.counts.all()
}

// Kinds of casts.
const (
	kindSend   = "send"
	kindStream = "stream"
	kindGather = "gather"
	kindReduce = "reduce"
	kindChoose = "choose"
)

// castCounts are the counts of a process.
type castCounts struct {
	mu     sync.Mutex  // guards byKind
	byKind []KindCount // in the order of their kinds
}

func (c *castCounts) all() []KindCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.byKind)
}

// add counts a cast.
func (c *castCounts) add(one KindCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, known := slices.BinarySearchFunc(c.byKind, one.Kind, func(c KindCount, kind string) int {
		return cmp.Compare(c.Kind, kind)
	})
	if !known {
		c.byKind = slices.Insert(c.byKind, i, KindCount{Kind: one.Kind})
	}
	c.byKind[i] = c.byKind[i].Add(one)
}

// count counts the cast at its end. err is the reason why it ended early.
func (r *rollout) count(err error) {
	if r.counts == nil {
		return // nothing was sent
	}
	one := KindCount{Kind: r.request.kind, Duration: time.Since(r.startedAt)}
	answers := uint64(0)
	for _, f := range r.fates {
		switch f {
		case answered:
			answers++
		case failed:
			one.RanksFailed++
		case missing:
			one.RanksMissing++
		case waiting:
		default:
			continue
		}
		one.RanksAsked++
	}
	switch {
	case r.abandoned || errors.Is(err, errAbandoned) || err == nil && r.pending > 0:
		one.Abandoned++
		one.RanksMissing = 0
	case answers == 0:
		one.Failed++
	case answers < one.RanksAsked || slices.Contains(r.fates, notAsked):
		one.Partial++
	default:
		one.Complete++
	}
	r.counts.add(one)
}

// countChoice counts a Choose at its end.
func countChoice(p *actor.Proc, startedAt time.Time, err *error) {
	r, ok := p.Values().Get(routerKey{}).(*Router)
	if !ok {
		return // the proc has no router
	}
	one := KindCount{Kind: kindChoose, RanksAsked: 1, Duration: time.Since(startedAt)}
	switch {
	case *err == nil:
		one.Complete++
	case isCanceled(*err):
		one.Abandoned++
	case errors.Is(*err, actor.ErrDeadline):
		one.Failed++
		one.RanksMissing++
	default:
		one.Failed++
		one.RanksFailed++
	}
	r.counts.add(one)
}

// isCanceled reports whether a caller gave up.
func isCanceled(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return errors.Is(err, context.Canceled) || ok && e.Code == actor.CodeCanceled
}
