package cast

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Fold casts m and returns the answers folded by a reducer that only the procs need to know: a built-in one
// (sum, top(3), merge(sum), count …) or one that the endpoint declares. So do programs that do not have the
// endpoint's types. The answers come together in the mesh, at the cost of one step more than Reduce.
//
// What a built-in reducer makes of answers is a list, a number, a map; of count-by a list of maps of answer
// and count. When some ranks have no answer, the value is that of the others and the error is a
// *CoverageError.
func Fold[A, M any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, any], m M, reducer string) (any, error) {
	if err := invalid(ep.Name(), CheckReducer(reducer)); err != nil {
		return nil, err
	}
	b, known := builtinOf(reducer, openAs[any])
	if t, ok := throttleOf(to); ok {
		if known != nil {
			return nil, invalid(ep.Name(), fmt.Errorf("a throttled cast folds at the caller, which does not know the reducer %q", reducer))
		}
		return foldThrottled(ctx, t, to, ep, m, b)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	a, err := begin(ctx, to, ep, question{message: m, mode: modeFold, reducer: reducer, apex: true})
	if err != nil {
		return nil, err
	}
	defer a.close()
	for a.next(ctx) {
	}
	v, err := atHome(a.parts, reducer, b, known)
	if err != nil {
		return nil, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return v, a.err()
}

// nameable refuses what can be the name of no reducer; unknown says why it is not a built-in one's.
func nameable(reducer string, unknown error) error {
	if unknown == nil || subjects.CheckLabel("reducer", reducer) == nil {
		return nil // the endpoint may declare it
	}
	return unknown
}

// atHome reads what came home. It is one value, unless who folded it died on the way.
func atHome(parts []part, reducer string, b builtin, unknown error) (any, error) {
	switch {
	case len(parts) == 0:
		return nil, nil
	case unknown == nil:
		acc, err := b.each(folded(parts))
		if err == nil {
			return plainly(acc)
		}
		if len(parts) > 1 {
			return nil, err
		}
	case len(parts) > 1:
		return nil, fmt.Errorf("a host that folds by %q died, and its answers came in %d parts: ask again", reducer, len(parts))
	}
	return actor.Open[any](parts[0].value) // the endpoint declares it
}

// plainly is what a built-in reducer has folded, without types of this package.
func plainly(acc any) (any, error) {
	switch acc := acc.(type) {
	case []item:
		return items[any](acc)
	case []tallied:
		out := make([]any, len(acc))
		for i, t := range acc {
			answer, err := actor.Open[any](actor.Encoded(t.Answer))
			if err != nil {
				return nil, err
			}
			out[i] = map[string]any{"answer": answer, "count": t.Count}
		}
		return out, nil
	}
	return acc, nil
}

func foldThrottled[A, M any](ctx context.Context, t Throttle, to Mesh[A], ep actor.Endpoint[A, M, any], m M, b builtin) (any, error) {
	r, err := roll(ctx, t, to, ep, m, everything[any])
	if err != nil {
		return nil, err
	}
	values := r.inOrder()
	if len(values) == 0 {
		return nil, r.err()
	}
	acc, err := alone(b, values)
	if err == nil {
		acc, err = plainly(acc)
	}
	if err != nil {
		return nil, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return acc, r.err()
}

// CheckReducer says what is wrong with the name of a reducer: neither that of a built-in one nor one that an
// endpoint could declare.
func CheckReducer(name string) error {
	_, unknown := builtinOf(name, openAs[any])
	return nameable(name, unknown)
}
