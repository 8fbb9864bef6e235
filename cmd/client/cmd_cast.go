package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

func (a *app) castCommand() *cobra.Command {
	var reduce string
	c := &cobra.Command{
		Use:   "cast MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Ask every actor of a region at once",
		Long: `Cast one message to the actors of a region: one publish, whatever their number. Answers
are printed as they arrive, each with its rank's coordinates, or folded into one value on
their way home with --reduce. The last line, on stderr, says who was asked and what became
of it; when not every rank gave a value, the exit code is 4.

JSON: {"replies":[{rank, point, value, ms}], "coverage":{asked, answered, failed,
failed_region, missing, missing_region, p50_ms, p99_ms}}; with --reduce
{"value", "reducer", "coverage"}. NDJSON: one reply a line as it arrives, failed ones with
error in place of value, then the coverage.`,
		Example: `  client cast demo counter add 1
  client cast 'demo[gpu=0:2]' counter get
  client cast demo counter get --reduce sum
  client cast demo counter get -o ndjson | head -1`,
		Args:              wantArgs(3, 4),
		ValidArgsFunction: a.complete(meshNames, actorNames, endpointNames),
	}
	c.Flags().StringVar(&reduce, "reduce", "", "fold the answers: "+strings.Join(reducerNames(), "|"))
	_ = c.RegisterFlagCompletionFunc("reduce", cobra.FixedCompletions(reducerNames(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		q, err := parseQuestion(args)
		if err != nil {
			return err
		}
		if !c.Flags().Changed("reduce") {
			return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.castEach(ctx, net, q) })
		}
		by, err := reducerNamed(reduce)
		if err != nil {
			return err
		}
		return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.castFold(ctx, net, q, by) })
	}
	return c
}

// castEach prints each rank's answer.
func (a *app) castEach(ctx context.Context, net *mesh.Net, q question) error {
	p, to, err := q.find(ctx, net)
	if err != nil {
		return err
	}
	show := a.newReplies(p)
	defer show.bar.clear()
	begun := time.Now()
	for pt, r := range cast.Stream(ctx, to, q.endpoint, q.message) {
		if r.Err != nil && len(pt.Extent().Dims()) == 0 {
			return r.Err // of the cast itself: it was not sent
		}
		if err := show.add(p.replyOf(pt.Rank(), r, since(begun))); err != nil {
			return err
		}
	}
	return show.finish()
}

// replyOf reads what one rank answered.
func (p place) replyOf(view int, r cast.Reply[any], ms float64) reply {
	raw, err := json.RawMessage(nil), r.Err
	if err == nil {
		raw, err = encodeValue(r.Value)
	}
	if err != nil {
		return p.failedReply(view, err)
	}
	return reply{Rank: p.rank(view), Point: p.point(view), Value: raw, MS: ms}
}

// castFold prints the one value that all answers fold into.
func (a *app) castFold(ctx context.Context, net *mesh.Net, q question, by actor.Reducer[any]) error {
	p, to, err := q.find(ctx, net)
	if err != nil {
		return err
	}
	bar := a.newProgress()
	bar.say(fmt.Sprintf("folding the answers of %d ranks", p.region.NumRanks()))
	begun := time.Now()
	value, err := cast.Reduce(ctx, to, q.endpoint, q.message, by)
	bar.clear()
	c, err := p.fromCast(err, since(begun))
	if err != nil {
		return err
	}
	raw, err := encodeValue(value)
	if err != nil {
		return err
	}
	return a.showFolded(folded{Value: raw, Reducer: by.Name(), Coverage: c}, p.base)
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
