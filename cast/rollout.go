package cast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// rollout is one cast of a verb at its caller: one batch after the other, each a cast to some ranks
// of the region. A cast that is not throttled is one batch.
type rollout struct {
	*collector
	target  Target
	request castRequest
	// cast asks one batch until each of its ranks has a fate, or ctx ends. It calls settled after
	// each change; false ends the cast.
	cast     func(ctx context.Context, batch shape.Ranks, settled func() bool) error
	reported int // settled ranks in the last progress report

	startedAt time.Time
	abandoned bool        // the caller has gone before the deadline
	counts    *castCounts // of the sender's process; nil: nothing was sent
}

// errAbandoned ends a cast whose caller takes no more answers.
var errAbandoned = errors.New("the caller takes no more answers")

// newRollout makes a cast to a valid target. A throttled cast folds at its caller.
func newRollout(t Target, q castRequest) *rollout {
	if t.throttle != nil {
		q.mode = modeEach
	}
	n := t.Region.NumRanks()
	own := 0
	if q.mode == modeEach {
		own = n
	}
	r := &rollout{collector: newCollector(0, n, own), target: t, request: q, startedAt: time.Now()}
	r.inOrder = q.mode == modeEach
	r.cast = r.castBatch
	return r
}

// run asks batch after batch, and calls each for every rank with a new fate; false ends the cast.
// Only a cast whose answers come one by one has such ranks. An error means that no rank was asked,
// or is errAbandoned.
func (r *rollout) run(ctx context.Context, each func(rank int) bool) error {
	ctx, span := r.startSpan(ctx)
	err := r.askBatches(ctx, each)
	r.count(err)
	r.endSpan(span, err)
	return err
}

// askBatches is run without its counters and its span.
func (r *rollout) askBatches(ctx context.Context, each func(rank int) bool) error {
	failures := 0
	var last error // reason of the last failure
	settled := func() bool {
		for _, rank := range r.takeSettled() {
			if f := r.fateOf(rank); f == failed || f == missing {
				failures++
				last = r.err(rank)
			}
			if !each(rank) {
				return false
			}
		}
		return true
	}
	batches := r.target.batches()
	for i, batch := range batches {
		var why error
		if i > 0 {
			why = r.target.throttle.stopReason(i, failures, last)
		}
		if i > 0 && why == nil {
			why = r.pause(ctx)
		}
		if why == nil {
			why = r.askBatch(ctx, batch, settled)
			if errors.Is(why, errAbandoned) || i == 0 && why != nil {
				return why
			}
			if !settled() {
				return errAbandoned
			}
		}
		if why != nil {
			r.stop(shape.UnionOf(batches[i:]...), fmt.Errorf("%w: %w", ErrNotAsked, why))
			break
		}
	}
	if !settled() {
		return errAbandoned
	}
	return nil
}

// askBatch casts to one batch. Ranks that exceed its time are missing, and the next batch follows.
func (r *rollout) askBatch(whole context.Context, batch shape.Ranks, settled func() bool) error {
	ctx, cancel := r.withDeadline(whole)
	defer cancel()
	r.expect(batch)
	err := r.cast(ctx, batch, settled)
	if err != nil && !errors.Is(err, errAbandoned) && ctx.Err() != nil && whole.Err() == nil {
		r.expire(err)
		return nil
	}
	return err
}

// withDeadline is the context of a batch.
func (r *rollout) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if t := r.target.throttle; t != nil {
		return context.WithTimeout(ctx, t.timeout())
	}
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, actor.DefaultDeadline)
}

// start casts to all ranks at once.
func (r *rollout) start(ctx context.Context) (*operation, error) {
	r.expect(r.target.ranks())
	return send(ctx, r, r.target.ranks())
}

// castBatch casts to the ranks of a batch.
func (r *rollout) castBatch(ctx context.Context, batch shape.Ranks, settled func() bool) error {
	a, err := send(ctx, r, batch)
	if err != nil {
		return err
	}
	defer a.close()
	for {
		if !settled() {
			return errAbandoned
		}
		if !a.awaitEvent(ctx) {
			return nil
		}
	}
}

// pause waits before the next batch; an error means that there is none.
func (r *rollout) pause(ctx context.Context) error {
	t := time.NewTimer(r.target.throttle.BatchDelay)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	if ctx.Err() == nil {
		return nil
	}
	code := actor.CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = actor.CodeDeadline
	}
	return &actor.Error{Code: code, Text: "the cast ended before: " + context.Cause(ctx).Error()}
}

// point is the point of a rank in the region.
func (r *rollout) point(rank int) shape.Point {
	p, err := r.target.Region.Extent().Point(rank)
	if err != nil { // cannot be: it is a rank of the region
		return shape.Point{}
	}
	return p
}

// coverage sums the fates up.
func (r *rollout) coverage() Coverage {
	c := Coverage{base: r.target.Placement.Extent, region: r.target.Region}
	for rank, f := range r.fates {
		if f == answered {
			c.Answered++
		}
		if f != skipped && f != notAsked {
			c.Asked++
		}
		if f == skipped || f == answered {
			continue
		}
		failure := Failure{Rank: rank, Point: r.point(rank), Err: r.err(rank)}
		switch f {
		case failed:
			c.Failed = append(c.Failed, failure)
		case notAsked:
			c.NotAsked = append(c.NotAsked, failure)
		default:
			c.Missing = append(c.Missing, failure)
		}
	}
	return c
}

// coverageError is the *CoverageError of a cast that is not whole; nil when it is.
func (r *rollout) coverageError() error {
	c := r.coverage()
	if c.Complete() {
		return nil
	}
	return &CoverageError{
		Mesh: r.target.Placement.Mesh.String(), Actor: r.target.Actor, Endpoint: r.request.endpoint, Coverage: c,
	}
}
