package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// target is what people write for (a region of) a mesh: `demo[host=0:2,gpu=*]`.
type target struct {
	name   string // a mesh's label or ID
	region string // as shape.Select reads it; "" = all
}

// parseTarget splits the text; whether the region fits is seen when the mesh's extent is known.
func parseTarget(text string) (target, error) {
	name, rest, sliced := strings.Cut(text, "[")
	region, closed := strings.CutSuffix(rest, "]")
	if sliced && !closed || strings.Contains(region, "[") || strings.Contains(name, "]") {
		return target{}, cli.Usagef("target %q: want MESH or MESH[region], such as 'demo[host=0:2,gpu=*]'", text)
	}
	if err := subjects.CheckName("mesh", name); err != nil {
		return target{}, err
	}
	return target{name: name, region: region}, shape.CheckSelection(region)
}

// place is (a region of) a live mesh, and how its ranks are named.
type place struct {
	whole  mesh.ProcMesh
	procs  mesh.ProcMesh // the region of it
	base   shape.Extent
	region shape.Region
}

// find looks the target up on the bus.
func (t target) find(ctx context.Context, net *mesh.Net) (place, error) {
	procs, err := net.Lookup(ctx, t.name)
	if err != nil {
		return place{}, orBareWorld(ctx, net, t.name, err)
	}
	return t.in(procs)
}

// in is the target's region of a mesh.
func (t target) in(procs mesh.ProcMesh) (p place, err error) {
	p = place{whole: procs, procs: procs.Select(t.region), base: procs.Describe().Extent}
	if p.region, err = shape.Select(p.base, t.region); err != nil {
		return place{}, cli.WithCode(cli.ExitUsage, fmt.Errorf("region of mesh %s, which is %s: %w", t.name, p.base, err))
	}
	return p, nil
}

// namedWithin is how long procs may take to say what runs there, and at most a quarter of the time that is left:
// who is silent is not waited for where others know.
const namedWithin = time.Second

// actors looks an actor mesh up on the place: where nobody of the region says what runs there, on the whole mesh.
func (p place) actors(ctx context.Context, name string) (mesh.ActorMesh[any], error) {
	within := namedWithin
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/4)
	}
	procs, whole := p.procs, false
	for {
		full, err := nameOn(ctx, procs, name, within)
		nobody, silent := errors.AsType[*cast.CoverageError](err)
		if !silent || ctx.Err() != nil || whole && len(nobody.Coverage.Missing) == 0 {
			return mesh.On[any](p.procs, full), err
		}
		procs, whole, within = p.whole, true, 2*within
	}
}

// nameOn asks procs for an actor mesh's full name.
func nameOn(ctx context.Context, procs mesh.ProcMesh, name string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	roster, err := procs.Roster(ctx)
	if err != nil {
		return "", err
	}
	return roster.Find(name)
}

// point names a rank of the region by its coordinates in the whole mesh, in the syntax of targets.
func (p place) point(view int) string { return pointOf(p.base, p.rank(view)) }

// rank is a rank of the region in the whole mesh.
func (p place) rank(view int) int {
	base, err := p.region.BaseRank(view)
	if err != nil {
		return -1
	}
	return base
}

// pointOf writes the coordinates of a rank: `host=0,gpu=3`. A mesh of one rank has none: it is "0".
func pointOf(e shape.Extent, rank int) string {
	at, err := e.Point(rank)
	if err != nil || len(e.Dims()) == 0 {
		return fmt.Sprint(rank)
	}
	parts := make([]string, len(e.Dims()))
	for i, d := range e.Dims() {
		parts[i] = fmt.Sprintf("%s=%d", d.Label, at.Coords()[i])
	}
	return strings.Join(parts, ",")
}

// String is what the target was parsed from.
func (t target) String() string {
	if t.region == "" {
		return t.name
	}
	return t.name + "[" + t.region + "]"
}
