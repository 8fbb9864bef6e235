package cast

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// addressed are the ranks of a cast. Only a sampled one needs their text.
type addressed struct {
	extent shape.Extent // of the whole mesh
	region shape.Region
	ranks  shape.Ranks // of the region
}

// String is the ranks in the syntax of regions.
func (a addressed) String() string {
	var ranks []int
	for rank := range a.ranks.All() {
		if base, err := a.region.BaseRank(rank); err == nil {
			ranks = append(ranks, base)
		}
	}
	return shape.Describe(a.extent, ranks)
}

// startSpan begins the span of a cast at its caller, and returns the context to cast with. nil:
// there is none.
func (r *rollout) startSpan(ctx context.Context) (context.Context, actor.Span) {
	t := r.target
	p, _, err := actor.Sender(ctx, t.Via)
	if p == nil || err != nil {
		return ctx, nil // as the cast itself reports
	}
	return p.StartSpan(ctx, func() actor.Operation {
		ranks := t.ranks()
		return actor.Operation{
			Kind: actor.OpCast, Actor: t.Placement.Proc(0).Actor(t.Actor), Endpoint: r.request.endpoint,
			Awaited: r.request.mode != modeSend,
			Region:  addressed{t.Placement.Extent, t.Region, ranks}, Asked: ranks.Len(),
		}
	})
}

// endSpan ends the span of a cast with its coverage. err is why no rank was asked, or why the
// caller left. nil: there is no span.
func (r *rollout) endSpan(span actor.Span, err error) {
	if span == nil {
		return
	}
	c := r.coverage()
	o := actor.Outcome{Err: err, Answered: c.Answered, Failed: len(c.Failed), Missing: len(c.Missing),
		NotAsked: len(c.NotAsked), FailedRegion: c.FailedRegion(), MissingRegion: c.MissingRegion()}
	if errors.Is(err, errAbandoned) {
		o.Err = nil
	}
	if o.Err == nil {
		o.Err = r.coverageError()
	}
	span.End(o)
}

// receiveSpan is the span of a cast in this process. It ends with the last answer, or at the
// deadline of the cast.
type receiveSpan struct {
	span actor.Span
	at   addressed
	late *time.Timer // nil: the cast has no deadline

	mu      sync.Mutex       // guards the fields below
	waiting map[int]struct{} // ranks of the region without an answer; nil: the span has ended
	outcome actor.Outcome
}

// startReceiveSpan begins the span of the ranks from first up to end, as the parent of what their
// handlers send. nil: the cast is not sampled.
func (r *Router) startReceiveSpan(f *actor.Delivery, h *header, first, end int) *receiveSpan {
	if h.Trace == nil {
		return nil
	}
	waiting := map[int]struct{}{}
	var ranks shape.RanksWriter
	for view := first; view < end; view = h.skip.FirstAbsent(view + 1) {
		waiting[view] = struct{}{}
		ranks.Add(view, 1)
	}
	at := addressed{r.placement.Extent, h.Region, ranks.Ranks()}
	span := r.p.Casts().StartReceive(f, actor.Operation{
		Sender: f.From, Actor: r.p.ID().Actor(f.Actor), Endpoint: f.Port, Region: at, Asked: len(waiting),
		Awaited: h.Mode != modeSend,
	})
	if span == nil {
		return nil
	}
	s := &receiveSpan{span: span, at: at, waiting: waiting}
	if !f.Deadline.IsZero() {
		s.late = time.AfterFunc(time.Until(f.Deadline), s.end)
	}
	return s
}

// count returns an answer function that counts each rank's first answer in the span.
func (s *receiveSpan) count(answer func(view int, a actor.Answer)) func(view int, a actor.Answer) {
	return func(view int, a actor.Answer) {
		s.settle(view, a.Err)
		answer(view, a)
	}
}

// settle counts an answer, and ends the span with the last one.
func (s *receiveSpan) settle(view int, err error) {
	s.mu.Lock()
	_, waits := s.waiting[view]
	if waits {
		delete(s.waiting, view)
		if err == nil {
			s.outcome.Answered++
		} else {
			s.outcome.Failed++
			s.outcome.Err = err
		}
	}
	last := waits && len(s.waiting) == 0
	s.mu.Unlock()
	if last {
		s.end()
	}
}

// end ends the span. Ranks without an answer are missing.
func (s *receiveSpan) end() {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	o := s.outcome
	s.mu.Unlock()
	if waiting == nil {
		return
	}
	if s.late != nil {
		s.late.Stop()
	}
	if len(waiting) > 0 {
		ranks := slices.Values(slices.Sorted(maps.Keys(waiting)))
		silent := addressed{s.at.extent, s.at.region, shape.RanksOf(ranks)}
		o.Missing = len(waiting)
		o.MissingRegion = silent.String()
		o.Err = cmp.Or[error](o.Err, errSilent)
	}
	s.span.End(o)
}

// sent ends the span of a cast without answers, once the mailboxes have it.
func (s *receiveSpan) sent() {
	if s.late != nil {
		s.late.Stop()
	}
	s.span.End(actor.Outcome{})
}

// errSilent is the error of a cast in a process where some ranks did not answer in time.
var errSilent = errors.New("some ranks did not answer within the deadline")
