package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
)

// castReduce prints the fold of all replies.
func (a *app) castReduce(ctx context.Context, k resolvedCast) error {
	asked := len(k.askedRanks())
	to, bar := k.withProgress(a, asked)
	begun := time.Now()
	value, err := cast.Fold(ctx, to, k.endpoint, k.message, k.reducer)
	bar.clear()
	c, err := k.fromCast(err, asked, millisSince(begun))
	if err != nil {
		return err
	}
	if err := k.reducerError(c); err != nil {
		return err
	}
	raw, err := encodeValue(value)
	if err != nil {
		return err
	}
	return a.showReduced(reduceResult{Value: raw, Reducer: k.reducer, Coverage: c}, k.base)
}

// reducerError returns an error if every rank refuses the reducer, because then the request was
// wrong. Only the procs know the reducers of an endpoint.
func (k resolvedCast) reducerError(c coverage) error {
	if len(c.Failed) == 0 || len(c.Failed) != c.Asked || codeOf(c.Failed[0].err) != actor.CodeInvalid ||
		!strings.Contains(c.Failed[0].Error, strconv.Quote(k.reducer)) {
		return nil
	}
	return cli.Usagef("%s; want one that endpoint %s declares, or %s",
		c.Failed[0].Error, k.endpoint.Name(), strings.Join(reducerExamples(), ", "))
}

// reduceResult is the result of a cast with a reducer. Its JSON names are stable.
type reduceResult struct {
	Value    json.RawMessage `json:"value"`
	Reducer  string          `json:"reducer"`
	Coverage coverage        `json:"coverage"`
}

func (a *app) showReduced(f reduceResult, base shape.Extent) (err error) {
	switch a.output {
	case asJSON:
		err = a.writeJSON(f)
	case asNDJSON:
		err = a.writeJSONLine(f)
	default:
		if f.Coverage.Answered > 0 {
			_, err = fmt.Fprintf(a.stdout, "%s\n", f.Value)
		}
		a.noteCoverage(f.Coverage)
	}
	if err != nil {
		return err
	}
	return f.Coverage.asError(base)
}
