package cast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
)

// settled is the fate of one rank of a batch.
type settled struct {
	rank   int
	fate   fate
	answer actor.Answer
	err    error
}

// askFunc asks some ranks and hands over the fate of each as it is known, until ctx ends or got wants no
// more. left are ranks that were not asked, and err why.
type askFunc func(ctx context.Context, ranks []int, got func(settled) bool) (left []int, err error)

// rolling is one throttled cast at its caller.
type rolling[R any] struct {
	throttle Throttle
	target   Target
	endpoint string
	ask      askFunc
	each     func(shape.Point, Reply[R]) bool // hears of every rank that was asked; false: enough

	fates    []fate // by rank; waiting: not asked
	replies  []Reply[R]
	settled  int
	failures int
	last     error // why the last one failed
	notAsked []int
	stopped  error // why they were not
}

// errLeft is why a cast ends whose caller takes no more answers.
var errLeft = errors.New("the caller takes no more answers")

// roll casts m batch by batch. An error says that nobody was asked, or is errLeft.
func roll[A, M, R any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M, each func(shape.Point, Reply[R]) bool) (*rolling[R], error) {
	target, err := to.Target()
	if err != nil {
		return nil, err
	}
	if err := ep.Err(); err != nil {
		return nil, err
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	q := question{endpoint: ep.Name(), message: m, mode: modeEach}
	r := newRolling(t, target, each)
	r.endpoint = ep.Name()
	r.ask = func(ctx context.Context, ranks []int, got func(settled) bool) ([]int, error) {
		return askParts(ctx, target, ranks, q, got)
	}
	return r, r.run(ctx, t.plan(target.Placement, target.Region))
}

func newRolling[R any](t Throttle, target Target, each func(shape.Point, Reply[R]) bool) *rolling[R] {
	n := target.Region.NumRanks()
	return &rolling[R]{throttle: t, target: target, each: each, fates: make([]fate, n), replies: make([]Reply[R], n)}
}

// run asks batch after batch.
func (r *rolling[R]) run(ctx context.Context, batches [][]int) error {
	for i, batch := range batches {
		if i > 0 {
			why := r.throttle.enough(i, r.failures, r.last)
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
		case errors.Is(err, errLeft), i == 0 && len(left) == len(batch):
			return err
		default:
			r.stop(err, append([][]int{left}, batches[i+1:]...))
			return nil
		}
	}
	return nil
}

// askBatch asks one batch. Whom its time was too short for is missing, and the next batch has its turn; left
// are those who were not asked for any other reason.
func (r *rolling[R]) askBatch(whole context.Context, batch []int) (left []int, err error) {
	ctx, cancel := context.WithTimeout(whole, r.throttle.timeout())
	defer cancel()
	left, err = r.ask(ctx, batch, r.take)
	if err == nil || errors.Is(err, errLeft) || ctx.Err() == nil || whole.Err() != nil {
		return left, err
	}
	for _, rank := range left {
		if !r.take(settled{rank: rank, fate: missing, err: err}) {
			return nil, errLeft
		}
	}
	return nil, nil
}

// take writes down what became of a rank.
func (r *rolling[R]) take(s settled) bool {
	reply := &r.replies[s.rank]
	r.fates[s.rank], reply.Err = s.fate, s.err
	if s.fate == answered {
		if reply.Value, reply.Err = actor.Open[R](s.answer); reply.Err != nil {
			r.fates[s.rank] = failed
		}
	}
	if reply.Err != nil {
		r.failures, r.last = r.failures+1, reply.Err
	}
	r.settled++
	if w := r.target.watch; w != nil {
		w.told(r.settled)
	}
	return r.each(r.point(s.rank), *reply)
}

// pause waits before the next batch; an error says that there is none any more.
func (r *rolling[R]) pause(ctx context.Context) error {
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

// stop notes who is not asked any more, and why.
func (r *rolling[R]) stop(why error, batches [][]int) {
	r.stopped = fmt.Errorf("%w: %w", ErrNotAsked, why)
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

func (r *rolling[R]) point(rank int) shape.Point {
	p, err := r.target.Region.Extent().Point(rank)
	if err != nil { // cannot be: it is a rank of the region
		return shape.Point{}
	}
	return p
}

// inOrder returns the values by rank.
func (r *rolling[R]) inOrder() []R {
	var out []R
	for rank, f := range r.fates {
		if f == answered {
			out = append(out, r.replies[rank].Value)
		}
	}
	return out
}

// err is the *CoverageError of a cast that is not whole; nil when it is.
func (r *rolling[R]) err() error {
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
		c.NotAsked = append(c.NotAsked, Failure{Rank: rank, Point: r.point(rank), Err: r.stopped})
	}
	if c.Whole() {
		return nil
	}
	return &CoverageError{Mesh: r.target.Placement.Mesh.String(), Actor: r.target.Actor, Endpoint: r.endpoint, Coverage: c}
}

// askParts casts to each part of the region that the ranks make up, and hands over what becomes of them.
func askParts(ctx context.Context, t Target, ranks []int, q question, got func(settled) bool) (left []int, err error) {
	regions, err := parts(t, ranks)
	if err != nil {
		return ranks, err
	}
	fates := make(chan settled, len(ranks)) // room for each: nobody waits to hand over
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := 0
	for i, region := range regions {
		part := t
		part.Region, part.within, part.watch = region, &t.Region, nil
		a, failed := send(ctx, part, q)
		if failed != nil {
			left, err = viewed(t.Region, regions[i:]), failed
			break
		}
		asked += region.NumRanks()
		wg.Go(func() { a.report(ctx, t.Region, fates) })
	}
	for range asked {
		if !got(<-fates) {
			return nil, errLeft
		}
	}
	return left, err
}

// report hands over the fate of every rank, by its rank in another region, and ends the asking.
func (a *asking) report(ctx context.Context, in shape.Region, fates chan<- settled) {
	defer a.close()
	for {
		for _, view := range a.drain() {
			base, err := a.region.BaseRank(view)
			rank, is := in.ViewRank(base)
			if err == nil && is { // it is: see parts
				fates <- settled{rank, a.fates[view], a.values[view], a.errs[view]}
			}
		}
		if !a.next(ctx) {
			return
		}
	}
}

// parts are boxes of the mesh that the ranks of a region make up.
func parts(t Target, ranks []int) ([]shape.Region, error) {
	if len(ranks) == t.Region.NumRanks() {
		return []shape.Region{t.Region}, nil
	}
	bases := make([]int, len(ranks))
	for i, rank := range ranks {
		var err error
		if bases[i], err = t.Region.BaseRank(rank); err != nil {
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

// viewed are the ranks that parts of a region have in it.
func viewed(whole shape.Region, parts []shape.Region) []int {
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
