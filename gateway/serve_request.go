package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// responder sends one message of an answer.
type responder func(outcome)

// run answers one request: it looks the mesh up, casts, and answers. If the cached mesh was out of
// date, it looks the mesh up again, once, as long as no handler ran.
func (g *Gateway) run(ctx context.Context, r request, say responder) {
	began := time.Now()
	e, err := g.directory.find(ctx, r.mesh, time.Time{})
	if err == nil && e.asOf.Before(began) {
		if g.attempt(ctx, r, e, say, false) {
			return
		}
		e, err = g.directory.find(ctx, r.mesh, began)
	}
	if err != nil {
		say(outcome{err: lookupError(err)})
		return
	}
	g.attempt(ctx, r, e, say, true)
}

// attempt casts to the mesh of an entry. Unless it is final, it may answer nothing and report
// false: the entry is out of date.
func (g *Gateway) attempt(ctx context.Context, r request, e *entry, say responder, final bool) bool {
	to, info, err := e.target(r)
	if err == nil {
		err = r.checkEndpoint(info)
	}
	var some recipients
	if err == nil {
		some, err = r.recipients(to)
	}
	if err != nil {
		if final {
			say(outcome{err: lookupError(err)})
		}
		return final
	}
	switch r.collect {
	case modeStream:
		return r.stream(ctx, some, g.data.MaxPayload(), say, final)
	case modeChoose:
		return r.choose(ctx, some, say, final)
	}
	o := r.castOnce(ctx, some, g.data.MaxPayload())
	if !final && isOutdated(o.err) {
		return false
	}
	say(o)
	return true
}

// recipients are the ranks that a request addresses.
type recipients struct {
	cast.Mesh[any]
	count int
}

// recipients returns the ranks of the request's region. Those of a union keep their numbers in the
// mesh.
func (r request) recipients(m mesh.ActorMesh[any]) (recipients, error) {
	t, err := m.Target()
	if err != nil || r.region == "" {
		return recipients{m, t.Region.NumRanks()}, err
	}
	s, err := shape.ParseSelection(t.Region.Extent(), r.region)
	if err == nil && s.IsEmpty() {
		_, err = s.Region() // refuses it
	}
	if err != nil {
		return recipients{}, badRequest("%s %.200q: %v", headerRegion, r.region, err)
	}
	if region, err := s.Region(); err == nil {
		return recipients{m.Select(r.region), region.NumRanks()}, nil
	}
	count := 0
	for range s.Ranks() {
		count++
	}
	return recipients{cast.Select(m, s), count}, nil
}

// checkEndpoint refuses an endpoint that the actors do not have. An empty description permits all.
func (r request) checkEndpoint(info agent.ActorInfo) error {
	if len(info.Endpoints) == 0 {
		return nil
	}
	var names []string
	for _, e := range info.Endpoints {
		name, _, _ := strings.Cut(e, "(")
		names = append(names, name)
	}
	if !slices.Contains(names, r.endpoint) {
		return &actor.Error{
			Code: actor.CodeNoEndpoint, Actor: r.actor, Endpoint: r.endpoint,
			Text: "no such endpoint; it has " + strings.Join(names, ", "),
		}
	}
	return nil
}

// castOnce casts and makes one message of the answers.
func (r request) castOnce(ctx context.Context, to recipients, most int) (o outcome) {
	var large error // the answer does not fit
	switch r.collect {
	case modeSend:
		o.empty = true
		o.err = cast.Send(ctx, to, actor.NewEndpoint[any, value, value](r.endpoint), r.body)
	case modeReduce:
		o.body, o.err = cast.Fold(ctx, to, actor.NewEndpoint[any, value, any](r.endpoint), r.body, r.reducer)
	default:
		var all shape.ValueMesh[value]
		all, o.err = cast.Gather(ctx, to, actor.NewEndpoint[any, value, value](r.endpoint), r.body)
		o.body = all.Values()
		if size := sizeOf(all.Values()); size > maxGathered*most {
			large = r.tooLarge(size, most)
		}
	}
	if c, covers := coverageOf(o.err, to.count); covers {
		c.sendOnly = r.collect == modeSend
		o.coverage = &c
		o.partial = o.err != nil && c.answered > 0 && !c.sendOnly
	}
	if large != nil {
		o.body = nil
		o.err = large
		o.partial = false
	}
	return o
}

// maxGathered is how much larger than a message the answers may be before they are written down:
// JSON of small numbers may be shorter than CBOR.
const maxGathered = 4

func sizeOf(all []value) (n int) {
	for _, v := range all {
		n += max(len(v.raw), 1)
	}
	return n
}

// stream casts and sends each answer as it comes. Refusals by outdated procs wait until there is
// anything else to send.
func (r request) stream(ctx context.Context, to recipients, most int, say responder,
	final bool) bool {
	t, err := to.Target()
	if err != nil {
		say(outcome{err: err})
		return true
	}
	sum := outcomeCounts{base: t.Placement.Extent}
	var held []outcome
	for point, reply := range cast.Stream(ctx, to, actor.NewEndpoint[any, value, value](r.endpoint), r.body) {
		if reply.Err != nil && !point.Extent().Equal(t.Region.Extent()) { // of the cast itself
			say(outcome{err: reply.Err})
			return true
		}
		rank, err := t.Region.BaseRank(point.Rank())
		if err != nil {
			continue // a point of the region has a rank in it
		}
		at := meshPointOf(sum.base, rank)
		o := outcome{err: reply.Err, point: &at}
		if o.err == nil {
			o.body, o.err = r.encode(reply.Value, most)
		}
		if missing := sum.count(rank, o.err); missing {
			o.err = &actor.Error{Code: actor.CodeDeadline, Text: reply.Err.Error()}
		}
		held = append(held, o)
		if !final && isOutdated(o.err) {
			continue
		}
		final = true
		for _, o := range held {
			say(o)
		}
		held = nil
	}
	if !final {
		return false
	}
	c := sum.coverage()
	say(outcome{empty: true, coverage: &c})
	return true
}

// choose asks one rank whose actor has not ended, and names it in the answer.
func (r request) choose(ctx context.Context, to recipients, say responder, final bool) bool {
	t, err := to.Target()
	if err != nil {
		say(outcome{err: err})
		return true
	}
	rank, v, err := cast.ChooseRank(ctx, to, actor.NewEndpoint[any, value, value](r.endpoint), r.body)
	if !final && isOutdated(err) {
		return false
	}
	o := outcome{body: v, err: err}
	if base, berr := t.Region.BaseRank(rank); berr == nil {
		at := meshPointOf(t.Placement.Extent, base)
		sum := outcomeCounts{base: t.Placement.Extent}
		sum.count(base, err)
		c := sum.coverage()
		o.point = &at
		o.coverage = &c
	}
	say(o)
	return true
}

// isOutdated reports whether a cast reached no proc and no handler ran.
func isOutdated(err error) bool {
	if partial, ok := errors.AsType[*cast.CoverageError](err); ok {
		c := partial.Coverage
		return c.Answered == 0 && len(c.Missing) == 0 &&
			!slices.ContainsFunc(c.Failed, func(f cast.Failure) bool { return !isOutdated(f.Err) })
	}
	e, ok := errors.AsType[*actor.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case actor.CodeNoActor, actor.CodeNoEndpoint, actor.CodeNoProc, actor.CodeStopped, actor.CodeProcDead:
		return e.Undeliverable()
	}
	return false
}
