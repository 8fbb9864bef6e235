package casting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// resolved is a cast with known ranks.
type resolved struct {
	Spec
	target.Resolved
	net           *mesh.Net
	actorMesh     cast.Mesh[any]
	throttledMesh cast.Mesh[any] // whole mesh, in batches if throttled
	batches       [][]int        // ranks of the region in send order
}

// Run resolves the target and sends. A throttled cast has its timeout per batch.
func Run(ctx context.Context, a *app.App, conn *mesh.Net, s Spec) error {
	limited, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
	defer cancel()
	k, err := s.resolveCast(limited, conn)
	switch {
	case err != nil:
		return err
	case s.dryRun:
		return showPlan(a.Printer, k)
	case len(s.throttled) == 0:
		ctx = limited
	}
	switch s.collect {
	case collectGather:
		return castGather(ctx, a.Printer, k)
	case collectReduce:
		return castReduce(ctx, a.Printer, k)
	case collectSend:
		return castSend(ctx, a.Printer, k)
	case collectChoose:
		return castChoose(ctx, a.Printer, k)
	}
	return castStream(ctx, a.Printer, k)
}

// resolveCast looks up the target.
func (s Spec) resolveCast(ctx context.Context, conn *mesh.Net) (resolved, error) {
	p, m, err := s.Resolve(ctx, conn)
	if err != nil {
		return resolved{}, err
	}
	if err := s.checkOnePer(p.Base); err != nil {
		return resolved{}, err
	}
	k := resolved{Spec: s, Resolved: p, net: conn, actorMesh: m}
	k.throttledMesh = k.withThrottle(m)
	k.batches, err = cast.Throttled[any](m, s.throttle).Batches()
	return k, err
}

// withThrottle returns the mesh as this cast addresses it: at once, or in batches.
func (k resolved) withThrottle(m cast.Mesh[any]) cast.Mesh[any] {
	if len(k.throttled) == 0 {
		return m
	}
	return cast.Throttled(m, k.throttle)
}

// progressInterval is the update interval of the progress bar.
const progressInterval = 200 * time.Millisecond

// withProgress returns the mesh with a progress bar of the replies, on a terminal.
func (k resolved) withProgress(out *output.Printer, asked int) (cast.Mesh[any], *output.Progress) {
	bar := out.NewProgress()
	if !bar.IsShown() {
		return k.throttledMesh, bar
	}
	bar.Update(0, asked, "ranks")
	return k.withThrottle(cast.WithProgress(k.actorMesh, progressInterval, func(n int) {
		bar.Update(n, asked, "ranks")
	})), bar
}

// checkOnePer refuses an unknown dimension.
func (s Spec) checkOnePer(e shape.Extent) error {
	var labels []string
	for _, d := range e.Dims() {
		labels = append(labels, d.Label)
	}
	if s.throttle.OnePer == "" || slices.Contains(labels, s.throttle.OnePer) {
		return nil
	}
	return cli.Usagef(
		"--one-per %s: mesh %s has no such dimension; want one of %s", s.throttle.OnePer, s.Target.Name,
		strings.Join(labels, ", "),
	)
}

// askedRanks returns the addressed ranks of the region, ascending.
func (k resolved) askedRanks() []int {
	all := slices.Concat(k.batches...)
	slices.Sort(all)
	return all
}

// streamReply converts one reply of a stream.
func (k resolved) streamReply(view int, r cast.Reply[any], times *batchTimer) Reply {
	took := times.onAnswer()
	if errors.Is(r.Err, cast.ErrNotAsked) {
		return skippedReply(k.Resolved, view, r.Err)
	}
	out := newReply(k.Resolved, view, r)
	out.MS = took
	return out
}

// castStream prints each rank's reply on arrival.
func castStream(ctx context.Context, out *output.Printer, k resolved) error {
	show := newReplies(out, k.Resolved, k.askedRanks(), out.NewProgress())
	defer show.bar.Clear()
	times := newBatchTimer(k)
	for pt, r := range cast.Stream(ctx, k.throttledMesh, k.Endpoint, k.Message) {
		if r.Err != nil && len(pt.Extent().Dims()) == 0 {
			return r.Err // of the cast itself, which was not sent
		}
		if err := show.add(k.streamReply(pt.Rank(), r, times)); err != nil {
			return err
		}
	}
	return show.finish(summarize(k.Resolved, show.all))
}

// castGather prints all replies by rank at the end.
func castGather(ctx context.Context, out *output.Printer, k resolved) error {
	asked := k.askedRanks()
	to, bar := k.withProgress(out, len(asked))
	begun := time.Now()
	values, err := cast.Gather(ctx, to, k.Endpoint, k.Message)
	bar.Clear()
	c, err := fromCast(k.Resolved, err, len(asked), millisSince(begun))
	if err != nil {
		return err
	}
	lost := map[int]Reply{}
	for _, r := range c.withoutValue() {
		lost[r.Rank] = r
	}
	show := newReplies(out, k.Resolved, asked, &output.Progress{})
	for _, view := range asked {
		r, is := lost[k.Rank(view)]
		if !is {
			v, _ := values.At(view)
			r = newReply(k.Resolved, view, cast.Reply[any]{Value: v})
		}
		if err := show.add(r); err != nil {
			return err
		}
	}
	return show.finish(c)
}
