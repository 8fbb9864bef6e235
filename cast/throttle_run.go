package cast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// rankResult is the fate of one rank of a batch.
type rankResult struct {
	rank   int
	fate   fate
	answer actor.Answer
	err    error
}

// askFunc casts to some ranks and hands over the fate of each once known, until ctx ends or got
// returns false. left are the ranks that were not asked, err the reason.
type askFunc func(ctx context.Context, ranks []int, got func(rankResult) bool) (left []int, err error)

// throttledRun is one throttled cast at its caller.
type throttledRun[R any] struct {
	throttle Throttle
	target   Target
	endpoint string
	ask      askFunc
	each     func(shape.Point, Reply[R]) bool // receives the result of every rank; false ends the cast

	fates    []fate // by rank; waiting: not asked
	replies  []Reply[R]
	settled  int
	failures int
	lastErr  error // why the last one failed
	notAsked []int
	stopErr  error // why these ranks were not asked
}

// errAbandoned ends a cast whose caller takes no more answers.
var errAbandoned = errors.New("the caller takes no more answers")

// runThrottled casts m batch by batch. An error means that no rank was asked, or is errLeft.
func runThrottled[A, M, R any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M, each func(shape.Point, Reply[R]) bool) (*throttledRun[R], error) {
	target, err := to.Target()
	if err != nil {
		return nil, err
	}
	if err := ep.Err(); err != nil {
		return nil, err
	}
	if err := target.validate(); err != nil {
		return nil, err
	}
	q := castRequest{endpoint: ep.Name(), message: m, mode: modeEach}
	r := newThrottledRun(t, target, each)
	r.endpoint = ep.Name()
	r.ask = func(ctx context.Context, ranks []int, got func(rankResult) bool) ([]int, error) {
		return castToParts(ctx, target, ranks, q, got)
	}
	return r, r.run(ctx, t.plan(target.Placement, target.Region))
}

func newThrottledRun[R any](t Throttle, target Target, each func(shape.Point, Reply[R]) bool) *throttledRun[R] {
	n := target.Region.NumRanks()
	return &throttledRun[R]{throttle: t, target: target, each: each, fates: make([]fate, n), replies: make([]Reply[R], n)}
}

// run asks batch after batch.
func (r *throttledRun[R]) run(ctx context.Context, batches [][]int) error {
	for i, batch := range batches {
		if i > 0 {
			why := r.throttle.stopReason(i, r.failures, r.lastErr)
			if why == nil {
				why = r.pause(ctx)
			}
			if why != nil {
				r.stop(why, batches[i:])
				return nil
			}
		}
		left, err := r.askBatch(ctx, batch)
		switch {
		case err == nil:
		case errors.Is(err, errAbandoned), i == 0 && len(left) == len(batch):
			return err
		default:
			r.stop(err, append([][]int{left}, batches[i+1:]...))
			return nil
		}
	}
	return nil
}

// askBatch casts to one batch. Ranks that exceed its time are missing, and the next batch follows;
// left are those not asked for any other reason.
func (r *throttledRun[R]) askBatch(whole context.Context, batch []int) (left []int, err error) {
	ctx, cancel := context.WithTimeout(whole, r.throttle.timeout())
	defer cancel()
	left, err = r.ask(ctx, batch, r.record)
	if err == nil || errors.Is(err, errAbandoned) || ctx.Err() == nil || whole.Err() != nil {
		return left, err
	}
	for _, rank := range left {
		if !r.record(rankResult{rank: rank, fate: missing, err: err}) {
			return nil, errAbandoned
		}
	}
	return nil, nil
}

// record stores the outcome of a rank.
func (r *throttledRun[R]) record(s rankResult) bool {
	reply := &r.replies[s.rank]
	r.fates[s.rank] = s.fate
	reply.Err = s.err
	if s.fate == answered {
		reply.Value, reply.Err = actor.DecodeAnswer[R](s.answer)
		if reply.Err != nil {
			r.fates[s.rank] = failed
		}
	}
	if reply.Err != nil {
		r.failures++
		r.lastErr = reply.Err
	}
	r.settled++
	if w := r.target.progress; w != nil {
		w.notify(r.settled)
	}
	return r.each(r.point(s.rank), *reply)
}

// pause waits before the next batch; an error means that there is none.
func (r *throttledRun[R]) pause(ctx context.Context) error {
	t := time.NewTimer(r.throttle.Pause)
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

// stop records the ranks that are no longer asked, and the reason.
func (r *throttledRun[R]) stop(why error, batches [][]int) {
	r.stopErr = fmt.Errorf("%w: %w", ErrNotAsked, why)
	keep := map[int]bool{}
	for _, batch := range batches {
		for _, rank := range batch {
			keep[rank] = true
		}
	}
	for rank := range r.fates {
		if keep[rank] {
			r.notAsked = append(r.notAsked, rank)
		}
	}
}

func (r *throttledRun[R]) point(rank int) shape.Point {
	p, err := r.target.Region.Extent().Point(rank)
	if err != nil { // cannot be: it is a rank of the region
		return shape.Point{}
	}
	return p
}

// inOrder returns the values by rank.
func (r *throttledRun[R]) inOrder() []R {
	var out []R
	for rank, f := range r.fates {
		if f == answered {
			out = append(out, r.replies[rank].Value)
		}
	}
	return out
}

// err is the *CoverageError of a cast that is not whole; nil when it is.
func (r *throttledRun[R]) err() error {
	c := Coverage{base: r.target.Placement.Extent, region: r.target.Region}
	for rank, f := range r.fates {
		failure := Failure{Rank: rank, Point: r.point(rank), Err: r.replies[rank].Err}
		switch f {
		case waiting:
			continue
		case answered:
			c.Answered++
		case failed:
			c.Failed = append(c.Failed, failure)
		case missing:
			c.Missing = append(c.Missing, failure)
		}
		c.Asked++
	}
	for _, rank := range r.notAsked {
		c.NotAsked = append(c.NotAsked, Failure{Rank: rank, Point: r.point(rank), Err: r.stopErr})
	}
	if c.Whole() {
		return nil
	}
	return &CoverageError{Mesh: r.target.Placement.Mesh.String(), Actor: r.target.Actor, Endpoint: r.endpoint, Coverage: c}
}

// castToParts casts to each part of the region made of the ranks, and hands over their outcomes.
func castToParts(ctx context.Context, t Target, ranks []int, q castRequest, got func(rankResult) bool) (left []int, err error) {
	regions, err := splitRegion(t, ranks)
	if err != nil {
		return ranks, err
	}
	fates := make(chan rankResult, len(ranks)) // room for each: no sender blocks
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := 0
	for i, region := range regions {
		part := t
		part.Region = region
		part.userRegion = &t.Region
		part.progress = nil
		a, failed := send(ctx, part, q)
		if failed != nil {
			left = viewRanks(t.Region, regions[i:])
			err = failed
			break
		}
		asked += region.NumRanks()
		wg.Go(func() { a.reportFates(ctx, t.Region, fates) })
	}
	for range asked {
		if !got(<-fates) {
			return nil, errAbandoned
		}
	}
	return left, err
}

// reportFates hands over the fate of every rank, by its rank in another region, and ends the asking.
func (a *operation) reportFates(ctx context.Context, in shape.Region, fates chan<- rankResult) {
	defer a.close()
	for {
		for _, view := range a.takeSettled() {
			base, err := a.region.BaseRank(view)
			rank, is := in.ViewRank(base)
			if err == nil && is { // it is: see parts
				fates <- rankResult{rank, a.fates[view], a.values[view], a.errs[view]}
			}
		}
		if !a.awaitEvent(ctx) {
			return
		}
	}
}

// splitRegion are boxes of the mesh that together are the ranks of a region.
func splitRegion(t Target, ranks []int) ([]shape.Region, error) {
	if len(ranks) == t.Region.NumRanks() {
		return []shape.Region{t.Region}, nil
	}
	bases := make([]int, len(ranks))
	for i, rank := range ranks {
		var err error
		bases[i], err = t.Region.BaseRank(rank)
		if err != nil {
			return nil, err
		}
	}
	var out []shape.Region
	for text := range strings.SplitSeq(shape.Describe(t.Placement.Extent, bases), " | ") {
		box, err := shape.Select(t.Placement.Extent, text)
		if err != nil {
			return nil, fmt.Errorf("cast to parts of %s: %w", t.Region, err)
		}
		out = append(out, box)
	}
	return out, nil
}

// viewRanks are the ranks of a region's parts, counted in the region.
func viewRanks(whole shape.Region, parts []shape.Region) []int {
	var out []int
	for _, part := range parts {
		for _, base := range part.Ranks() {
			if rank, is := whole.ViewRank(base); is {
				out = append(out, rank)
			}
		}
	}
	return out
}
