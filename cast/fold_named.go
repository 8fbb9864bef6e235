package cast

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Fold casts m and returns the answers folded by a named reducer that only the procs need to know.
// The reducer is built in (sum, top(3), merge(sum), count …) or declared by the endpoint. Programs
// without the endpoint's types use Fold. The answers fold in the mesh, at the cost of one step more
// than Reduce.
//
// A built-in reducer returns a list, a number or a map; count-by returns a list of maps of answer
// and count. When some ranks have no answer, the value is that of the others and the error is a
// *CoverageError.
func Fold[A, M any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, any], m M,
	reducer string) (any, error) {
	if err := invalid(ep.Name(), CheckReducer(reducer)); err != nil {
		return nil, err
	}
	b, known := parseBuiltin(reducer, openAs[any])
	r, err := prepare(to, ep, castRequest{kind: kindReduce, message: m, mode: modeFold, reducer: reducer,
		singleRoot: true, open: openAs[any]})
	if err == nil && r.target.throttle != nil && known != nil {
		err = invalid(ep.Name(), fmt.Errorf("a throttled cast folds at the caller, which does not know the "+
			"reducer %q", reducer))
	}
	if err == nil {
		err = r.run(ctx, func(int) bool { return true })
	}
	if err != nil {
		return nil, err
	}
	v, err := decodeNamed(r.collector, reducer, b, known)
	if err != nil {
		return nil, r.foldError(err)
	}
	return v, r.coverageError()
}

// checkReducerName refuses a text that cannot name a reducer; unknown is the reason why it is not a
// built-in one.
func checkReducerName(reducer string, unknown error) error {
	if unknown == nil || subjects.CheckLabel("reducer", reducer) == nil {
		return nil // the endpoint may declare it
	}
	return unknown
}

// decodeNamed decodes the folded value. There are several parts only if a folder died on the way.
func decodeNamed(c *collector, reducer string, b builtin, unknown error) (any, error) {
	if unknown == nil {
		acc, err := b.foldAll(c.values())
		if err == nil {
			return toPlainValue(acc)
		}
		if len(c.parts) != 1 {
			return nil, err
		}
	}
	switch len(c.parts) {
	case 0:
		return nil, nil
	case 1:
		return actor.DecodeAnswer[any](c.parts[0].value) // the endpoint declares it
	}
	return nil, fmt.Errorf("a host that folds by %q died, and its answers came in %d parts: ask again",
		reducer, len(c.parts))
}

// toPlainValue converts the result of a built-in reducer to types outside this package.
func toPlainValue(acc any) (any, error) {
	switch acc := acc.(type) {
	case []item:
		return items[any](acc)
	case []valueCount:
		out := make([]any, len(acc))
		for i, t := range acc {
			answer, err := actor.DecodeAnswer[any](actor.EncodedAnswer(t.Answer))
			if err != nil {
				return nil, err
			}
			out[i] = map[string]any{"answer": answer, "count": t.Count}
		}
		return out, nil
	}
	return acc, nil
}

// CheckReducer returns an error for a name of neither a built-in reducer nor a possible declared
// one.
func CheckReducer(name string) error {
	_, unknown := parseBuiltin(name, openAs[any])
	return checkReducerName(name, unknown)
}
