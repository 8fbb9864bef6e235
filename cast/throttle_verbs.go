package cast

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// streamThrottled is Stream in batches. It yields the ranks that were not asked at the end.
func streamThrottled[A, M, R any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M, yield func(shape.Point, Reply[R]) bool) {
	r, err := runThrottled(ctx, t, to, ep, m, yield)
	if errors.Is(err, errAbandoned) {
		return
	}
	if err != nil {
		yield(shape.Point{}, Reply[R]{Err: err})
		return
	}
	for _, rank := range r.notAsked {
		if !yield(r.point(rank), Reply[R]{Err: r.stopErr}) {
			return
		}
	}
}

// acceptAll takes all answers.
func acceptAll[R any](shape.Point, Reply[R]) bool { return true }

func gatherThrottled[A, M, R any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M) (shape.ValueMesh[R], error) {
	r, err := runThrottled(ctx, t, to, ep, m, acceptAll[R])
	if err != nil {
		return shape.ValueMesh[R]{}, err
	}
	values := make([]R, len(r.replies))
	for rank, reply := range r.replies {
		values[rank] = reply.Value
	}
	out, err := shape.NewValueMesh(r.target.Region, values)
	if err != nil {
		return out, err
	}
	return out, r.err()
}

func reduceThrottled[A, M, R any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by actor.Reducer[R]) (R, error) {
	var zero R
	r, err := runThrottled(ctx, t, to, ep, m, acceptAll[R])
	if err != nil {
		return zero, err
	}
	values := r.inOrder()
	if len(values) == 0 {
		return zero, r.err()
	}
	acc, err := foldPairwise(values, by.Fold)
	if err != nil {
		return zero, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return acc, r.err()
}

func aggregateThrottled[A, M, R, Acc any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by Aggregator[R, Acc]) (Acc, error) {
	var zero Acc
	r, err := runThrottled(ctx, t, to, ep, m, acceptAll[R])
	if err != nil {
		return zero, err
	}
	out, err := by.foldAnswers(r.inOrder())
	if err != nil {
		return zero, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return out, r.err()
}
