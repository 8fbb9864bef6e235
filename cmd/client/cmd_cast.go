package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func (a *app) castCommand() *cobra.Command {
	s := &castSpec{}
	c := &cobra.Command{
		Use:   "cast MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Ask every actor of a region at once",
		Long: `Cast one message to the actors of a region: one publish, whatever their number. --collect
selects how answers are collected:

  stream   printed on arrival, each with its rank's coordinates (the default)
  gather   printed together, by rank
  reduce   folded into one value on the way, by the reducer of --reduce
  send     none: the message is sent without a wait for answers
  choose   the answer of any one live rank

The last line, on stderr, has the coverage. If a rank gave no value, the exit code is 4.

--one-per takes any dimension of the mesh, such as host or gpu.

Built-in reducers: sum, min, max, all, any, concat, merge(sum); and of another type than the
answers: count, collect, count-by, top(N), bottom(N), histogram(BOUND,…). An endpoint may declare
others.

--batch-size, --one-per and --canary ask batch by batch, each after the answers of the one
before; then --timeout applies to each batch. --sample draws the same ranks for the same --seed, so
--dry-run shows the ranks that will be asked.

JSON: {"replies":[{rank, point, value, ms}], "coverage":{asked, answered, failed,
failed_region, missing, missing_region, not_asked, not_asked_region, p50_ms, p99_ms}}; reduce
{"value", "reducer", "coverage"}; send {asked, sent, failed, failed_region}; choose {value};
--dry-run rank, point, host, batch; --print-nats {command}. NDJSON: one reply a line as it arrives,
failed ones with error in place of value, then the coverage.`,
		Example: `  castnet cast demo counter add 1
  castnet cast 'demo[gpu=0:2]' counter get
  castnet cast demo counter get --reduce sum
  castnet cast demo counter get --reduce 'top(3)'
  castnet cast demo counter get --collect gather -o json
  castnet cast demo counter get -o ndjson | head -1
  castnet cast demo counter reset --one-per host --canary --batch-delay 5s --max-failures 2
  castnet cast demo counter add 1 --sample 10% --seed 7 --dry-run
  castnet cast demo counter add 1 --reduce sum --print-nats`,
		Args:              wantArgs(3, 4),
		ValidArgsFunction: a.complete(liveNames, actorNames, endpointNames),
	}
	s.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.parse(c, args, a.conn.Timeout); err != nil {
			return err
		}
		if s.natsCmd {
			return a.showNatsCommand(*s)
		}
		return a.withNet(c.Context(), func(net *mesh.Net) error { return a.cast(c.Context(), net, *s) })
	}
	return c
}

// resolvedCast is a cast with known ranks.
type resolvedCast struct {
	castSpec
	resolvedTarget
	net           *mesh.Net
	actorMesh     cast.Mesh[any]
	throttledMesh cast.Mesh[any] // whole mesh, in batches if throttled
	batches       [][]int        // ranks of the region in send order
}

// cast resolves the target and sends. A throttled cast has its timeout per batch.
func (a *app) cast(ctx context.Context, net *mesh.Net, s castSpec) error {
	limited, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	k, err := s.resolveCast(limited, net)
	switch {
	case err != nil:
		return err
	case s.dryRun:
		return a.showPlan(k)
	case len(s.throttled) == 0:
		ctx = limited
	}
	switch s.collect {
	case collectGather:
		return a.castGather(ctx, k)
	case collectReduce:
		return a.castReduce(ctx, k)
	case collectSend:
		return a.castSend(ctx, k)
	case collectChoose:
		return a.castChoose(ctx, k)
	}
	return a.castStream(ctx, k)
}

// resolveCast looks up the target.
func (s castSpec) resolveCast(ctx context.Context, net *mesh.Net) (resolvedCast, error) {
	p, m, err := s.resolve(ctx, net)
	if err != nil {
		return resolvedCast{}, err
	}
	if err := s.checkOnePer(p.base); err != nil {
		return resolvedCast{}, err
	}
	k := resolvedCast{castSpec: s, resolvedTarget: p, net: net, actorMesh: m}
	k.throttledMesh = k.withThrottle(m)
	k.batches, err = cast.Throttled[any](m, s.throttle).Batches()
	return k, err
}

// withThrottle returns the mesh as this cast addresses it: at once, or in batches.
func (k resolvedCast) withThrottle(m cast.Mesh[any]) cast.Mesh[any] {
	if len(k.throttled) == 0 {
		return m
	}
	return cast.Throttled(m, k.throttle)
}

// progressInterval is the update interval of the progress bar.
const progressInterval = 200 * time.Millisecond

// withProgress returns the mesh with a progress bar of the replies, on a terminal.
func (k resolvedCast) withProgress(a *app, asked int) (cast.Mesh[any], *progress) {
	bar := a.newProgress()
	if !bar.isShown() {
		return k.throttledMesh, bar
	}
	bar.update(0, asked, "ranks")
	return k.withThrottle(cast.WithProgress(k.actorMesh, progressInterval, func(n int) { bar.update(n, asked, "ranks") })), bar
}

// checkOnePer refuses an unknown dimension.
func (s castSpec) checkOnePer(e shape.Extent) error {
	var labels []string
	for _, d := range e.Dims() {
		labels = append(labels, d.Label)
	}
	if s.throttle.OnePer == "" || slices.Contains(labels, s.throttle.OnePer) {
		return nil
	}
	return cli.Usagef("--one-per %s: mesh %s has no such dimension; want one of %s", s.throttle.OnePer, s.target.name, strings.Join(labels, ", "))
}

// askedRanks returns the addressed ranks of the region, ascending.
func (k resolvedCast) askedRanks() []int {
	all := slices.Concat(k.batches...)
	slices.Sort(all)
	return all
}

// streamReply converts one reply of a stream.
func (k resolvedCast) streamReply(view int, r cast.Reply[any], times *batchTimer) reply {
	took := times.onAnswer()
	if errors.Is(r.Err, cast.ErrNotAsked) {
		return k.skippedReply(view, r.Err)
	}
	out := k.newReply(view, r)
	out.MS = took
	return out
}

// castStream prints each rank's reply on arrival.
func (a *app) castStream(ctx context.Context, k resolvedCast) error {
	show := a.newReplies(k.resolvedTarget, k.askedRanks(), a.newProgress())
	defer show.bar.clear()
	times := newBatchTimer(k)
	for pt, r := range cast.Stream(ctx, k.throttledMesh, k.endpoint, k.message) {
		if r.Err != nil && len(pt.Extent().Dims()) == 0 {
			return r.Err // of the cast itself, which was not sent
		}
		if err := show.add(k.streamReply(pt.Rank(), r, times)); err != nil {
			return err
		}
	}
	return show.finish(k.summarize(show.all))
}

// castGather prints all replies by rank at the end.
func (a *app) castGather(ctx context.Context, k resolvedCast) error {
	asked := k.askedRanks()
	to, bar := k.withProgress(a, len(asked))
	begun := time.Now()
	values, err := cast.Gather(ctx, to, k.endpoint, k.message)
	bar.clear()
	c, err := k.fromCast(err, len(asked), millisSince(begun))
	if err != nil {
		return err
	}
	lost := map[int]reply{}
	for _, r := range c.withoutValue() {
		lost[r.Rank] = r
	}
	show := a.newReplies(k.resolvedTarget, asked, &progress{})
	for _, view := range asked {
		r, is := lost[k.rank(view)]
		if !is {
			v, _ := values.At(view)
			r = k.newReply(view, cast.Reply[any]{Value: v})
		}
		if err := show.add(r); err != nil {
			return err
		}
	}
	return show.finish(c)
}
