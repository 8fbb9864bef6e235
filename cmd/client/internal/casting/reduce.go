package casting

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
)

// castReduce prints the fold of all replies.
func castReduce(ctx context.Context, out *output.Printer, k resolved) error {
	asked := len(k.askedRanks())
	to, bar := k.withProgress(out, asked)
	begun := time.Now()
	value, err := cast.Fold(ctx, to, k.Endpoint, k.Message, k.reducer)
	bar.Clear()
	c, err := fromCast(k.Resolved, err, asked, millisSince(begun))
	if err != nil {
		return err
	}
	if err := k.reducerError(c); err != nil {
		return err
	}
	raw, err := target.EncodeValue(value)
	if err != nil {
		return err
	}
	return showReduced(out, ReduceResult{Value: raw, Reducer: k.reducer, Coverage: c}, k.Base)
}

// reducerError returns an error if every rank refuses the reducer, because then the request was
// wrong. Only the procs know the reducers of an endpoint.
func (k resolved) reducerError(c Coverage) error {
	if len(c.Failed) == 0 || len(c.Failed) != c.Asked || codeOf(c.Failed[0].err) != actor.CodeInvalid ||
		!strings.Contains(c.Failed[0].Error, strconv.Quote(k.reducer)) {
		return nil
	}
	return cli.Usagef("%s; want one that endpoint %s declares, or %s",
		c.Failed[0].Error, k.Endpoint.Name(), strings.Join(ReducerExamples(), ", "))
}

// ReduceResult is the result of a cast with a reducer. Its JSON names are stable.
type ReduceResult struct {
	Value    json.RawMessage `json:"value"`
	Reducer  string          `json:"reducer"`
	Coverage Coverage        `json:"coverage"`
}

func showReduced(out *output.Printer, f ReduceResult, base shape.Extent) error {
	written, err := out.WriteDocument(f)
	if !written {
		if f.Coverage.Answered > 0 {
			_, err = fmt.Fprintf(out.Stdout, "%s\n", f.Value)
		}
		noteCoverage(out, f.Coverage)
	}
	if err != nil {
		return err
	}
	return f.Coverage.asError(base)
}
