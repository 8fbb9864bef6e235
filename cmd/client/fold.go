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
	"github.com/castnet-io/castnet/mesh/shape"
)

// castReduce prints the one value that all answers fold into.
func (a *app) castReduce(ctx context.Context, k casting) error {
	asked := len(k.asked())
	to, bar := k.watched(a, asked)
	begun := time.Now()
	value, err := cast.Fold(ctx, to, k.endpoint, k.message, k.reducer)
	bar.clear()
	c, err := k.fromCast(err, asked, since(begun))
	if err != nil {
		return err
	}
	if err := k.wrongReducer(c); err != nil {
		return err
	}
	raw, err := encodeValue(value)
	if err != nil {
		return err
	}
	return a.showFolded(folded{Value: raw, Reducer: k.reducer, Coverage: c}, k.base)
}

// wrongReducer is the error when every rank refuses the reducer: then the question was wrong, and not the
// mesh. Only the procs know what an endpoint declares.
func (k casting) wrongReducer(c coverage) error {
	if len(c.Failed) == 0 || len(c.Failed) != c.Asked || codeOf(c.Failed[0].err) != actor.CodeInvalid ||
		!strings.Contains(c.Failed[0].Error, strconv.Quote(k.reducer)) {
		return nil
	}
	return cli.Usagef("--reduce %q: %s; want one that endpoint %s declares, or %s",
		k.reducer, c.Failed[0].Error, k.endpoint.Name(), strings.Join(reducerExamples(), ", "))
}

// folded is the outcome of a cast with a reducer; its JSON names are stable.
type folded struct {
	Value    json.RawMessage `json:"value"`
	Reducer  string          `json:"reducer"`
	Coverage coverage        `json:"coverage"`
}

func (a *app) showFolded(f folded, base shape.Extent) (err error) {
	switch a.output {
	case asJSON:
		err = a.document(f)
	case asNDJSON:
		err = a.line(f)
	default:
		if f.Coverage.Answered > 0 {
			_, err = fmt.Fprintf(a.out, "%s\n", f.Value)
		}
		a.noteCoverage(f.Coverage)
	}
	if err != nil {
		return err
	}
	return f.Coverage.verdict(base)
}
