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
	"github.com/castnet-io/castnet/mesh/shape"
)

func (a *app) castCommand() *cobra.Command {
	s := &castSpec{}
	c := &cobra.Command{
		Use:   "cast MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Ask every actor of a region at once",
		Long: `Cast one message to the actors of a region: one publish, whatever their number. --collect
says what becomes of the answers:

  stream   printed as they arrive, each with its rank's coordinates (the default)
  gather   printed together, by rank
  reduce   folded into one value on their way home, by the reducer that --reduce names
  post     none: the actors are told, and not waited for
  choose   that of one rank, any that is alive

The last line, on stderr, says who was asked and what became of it; when not every rank gave
a value, the exit code is 4.

--one-per takes any dimension of the mesh, such as host or gpu.

Built-in reducers: sum, min, max, all, any, concat, merge(sum); and of another type than the
answers: count, collect, count-by, top(N), bottom(N), histogram(BOUND,…). An endpoint may declare
others.

--batch, --one-per and --canary ask batch by batch, each after the one before it has answered;
then --timeout is that of each batch. --limit draws the same ranks for the same --seed, so what
--dry-run shows is who will be asked.

JSON: {"replies":[{rank, point, value, ms}], "coverage":{asked, answered, failed,
failed_region, missing, missing_region, not_asked, not_asked_region, p50_ms, p99_ms}}; reduce
{"value", "reducer", "coverage"}; post {asked, posted, failed, failed_region}; choose {value};
--dry-run rank, point, host, batch; --nats-cmd {command}. NDJSON: one reply a line as it arrives,
failed ones with error in place of value, then the coverage.`,
		Example: `  client cast demo counter add 1
  client cast 'demo[gpu=0:2]' counter get
  client cast demo counter get --reduce sum
  client cast demo counter get --reduce 'top(3)'
  client cast demo counter get --collect gather -o json
  client cast demo counter get -o ndjson | head -1
  client cast demo counter reset --one-per host --canary --pause 5s --stop-after 2
  client cast demo counter add 1 --limit 10% --seed 7 --dry-run
  client cast demo counter add 1 --reduce sum --nats-cmd`,
		Args:              wantArgs(3, 4),
		ValidArgsFunction: a.complete(liveNames, actorNames, endpointNames),
	}
	s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.parse(c, args, a.conn.Timeout); err != nil {
			return err
		}
		if s.natsCmd {
			return a.showNatsCommand(*s)
		}
		return a.connected(c.Context(), func(net *mesh.Net) error { return a.cast(c.Context(), net, *s) })
	}
	return c
}

// casting is a cast whose ranks are known.
type casting struct {
	castSpec
	place
	net     *mesh.Net
	whole   cast.Mesh[any]
	to      cast.Mesh[any] // whole, by batches if need be
	batches [][]int        // of ranks of the region, as they are asked when nothing stops the cast
}

// cast finds whom to ask and asks them. A throttled cast has so much time for each batch.
func (a *app) cast(ctx context.Context, net *mesh.Net, s castSpec) error {
	limited, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	k, err := s.aim(limited, net)
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
	case collectPost:
		return a.castPost(ctx, k)
	case collectChoose:
		return a.castChoose(ctx, k)
	}
	return a.castStream(ctx, k)
}

// aim looks up whom to ask.
func (s castSpec) aim(ctx context.Context, net *mesh.Net) (casting, error) {
	p, m, err := s.find(ctx, net)
	if err != nil {
		return casting{}, err
	}
	if err := s.checkOnePer(p.base); err != nil {
		return casting{}, err
	}
	k := casting{castSpec: s, place: p, net: net, whole: m}
	k.to = k.paced(m)
	k.batches, err = cast.Throttled[any](m, s.throttle).Batches()
	return k, err
}

// paced is a mesh as this cast asks it: at once, or by batches.
func (k casting) paced(m cast.Mesh[any]) cast.Mesh[any] {
	if len(k.throttled) == 0 {
		return m
	}
	return cast.Throttled(m, k.throttle)
}

// watchEvery is how often a bar moves while answers come home together.
const watchEvery = 200 * time.Millisecond

// watched is whom to ask, and a bar that says how many have answered, where somebody looks.
func (k casting) watched(a *app, asked int) (cast.Mesh[any], *progress) {
	bar := a.newProgress()
	if !bar.shown() {
		return k.to, bar
	}
	bar.step(0, asked, "ranks")
	return k.paced(cast.Watched(k.whole, watchEvery, func(n int) { bar.step(n, asked, "ranks") })), bar
}

// checkOnePer refuses a dimension that the mesh does not have.
func (s castSpec) checkOnePer(e shape.Extent) error {
	var labels []string
	for _, d := range e.Dims() {
		labels = append(labels, d.Label)
	}
	if s.throttle.OnePer == "" || slices.Contains(labels, s.throttle.OnePer) {
		return nil
	}
	return cli.Usagef("--one-per %s: mesh %s has no such dimension; want one of %s", s.throttle.OnePer, s.to.name, strings.Join(labels, ", "))
}

// asked are the ranks of the region that the cast is for, ascending.
func (k casting) asked() []int {
	all := slices.Concat(k.batches...)
	slices.Sort(all)
	return all
}

// arrived is an answer of a stream.
func (k casting) arrived(view int, r cast.Reply[any], times *pace) reply {
	took := times.answer()
	if errors.Is(r.Err, cast.ErrNotAsked) {
		return k.skippedReply(view, r.Err)
	}
	out := k.replyOf(view, r)
	out.MS = took
	return out
}

// castStream prints each rank's answer as it arrives.
func (a *app) castStream(ctx context.Context, k casting) error {
	show := a.newReplies(k.place, k.asked(), a.newProgress())
	defer show.bar.clear()
	times := newPace(k)
	for pt, r := range cast.Stream(ctx, k.to, k.endpoint, k.message) {
		if r.Err != nil && len(pt.Extent().Dims()) == 0 {
			return r.Err // of the cast itself: it was not sent
		}
		if err := show.add(k.arrived(pt.Rank(), r, times)); err != nil {
			return err
		}
	}
	return show.finish(k.settle(show.all))
}

// castGather prints all answers by rank, once they are here.
func (a *app) castGather(ctx context.Context, k casting) error {
	asked := k.asked()
	to, bar := k.watched(a, len(asked))
	begun := time.Now()
	values, err := cast.Gather(ctx, to, k.endpoint, k.message)
	bar.clear()
	c, err := k.fromCast(err, len(asked), since(begun))
	if err != nil {
		return err
	}
	lost := map[int]reply{}
	for _, r := range c.lost() {
		lost[r.Rank] = r
	}
	show := a.newReplies(k.place, asked, &progress{})
	for _, view := range asked {
		r, is := lost[k.rank(view)]
		if !is {
			v, _ := values.At(view)
			r = k.replyOf(view, cast.Reply[any]{Value: v})
		}
		if err := show.add(r); err != nil {
			return err
		}
	}
	return show.finish(c)
}
