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
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// target is (a region of) a mesh in user syntax: `demo[host=0:2,gpu=*]`.
type target struct {
	name   string // a mesh's label or ID
	region string // syntax of shape.Select; "" = all
}

// parseTarget splits the text. The region is checked against the mesh later.
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

// resolvedTarget is (a region of) a live mesh with the names of its ranks.
type resolvedTarget struct {
	whole  mesh.ProcMesh
	procs  mesh.ProcMesh // ranks of the region
	base   shape.Extent
	region shape.Region
}

// resolve looks up the target on the bus.
func (t target) resolve(ctx context.Context, net *mesh.Net) (resolvedTarget, error) {
	procs, err := net.Lookup(ctx, t.name)
	if err != nil {
		return resolvedTarget{}, orEmptyWorld(ctx, net, t.name, err)
	}
	return t.resolveIn(procs)
}

// resolveIn returns the target's region of a mesh.
func (t target) resolveIn(procs mesh.ProcMesh) (p resolvedTarget, err error) {
	p = resolvedTarget{whole: procs, procs: procs.Select(t.region), base: procs.Describe().Extent}
	p.region, err = shape.Select(p.base, t.region)
	if err != nil {
		return resolvedTarget{}, cli.WithCode(cli.ExitUsage, fmt.Errorf("region of mesh %s, which is %s: %w", t.name, p.base, err))
	}
	return p, nil
}

// nameLookupTimeout bounds the wait for procs to list their actors, together with a quarter of the
// remaining time. Silent procs are skipped.
const nameLookupTimeout = time.Second

// actors looks up an actor mesh on the region, or on the whole mesh if the region is silent.
func (p resolvedTarget) actors(ctx context.Context, name string) (mesh.ActorMesh[any], error) {
	within := nameLookupTimeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/4)
	}
	procs := p.procs
	whole := false
	for {
		full, err := fullActorName(ctx, procs, name, within)
		nobody, silent := errors.AsType[*cast.CoverageError](err)
		if !silent || ctx.Err() != nil || whole && len(nobody.Coverage.Missing) == 0 {
			return mesh.ActorsOn[any](p.procs, full), err
		}
		procs = p.whole
		whole = true
		within = 2 * within
	}
}

// fullActorName asks procs for the full name of an actor mesh.
func fullActorName(ctx context.Context, procs mesh.ProcMesh, name string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	roster, err := procs.ListActors(ctx)
	if err != nil {
		return "", err
	}
	return roster.Find(name)
}

// point returns the coordinates of a rank of the region in the whole mesh, in target syntax.
func (p resolvedTarget) point(view int) string { return formatPoint(p.base, p.rank(view)) }

// rank converts a rank of the region to one of the whole mesh.
func (p resolvedTarget) rank(view int) int {
	base, err := p.region.BaseRank(view)
	if err != nil {
		return -1
	}
	return base
}

// formatPoint formats the coordinates of a rank: `host=0,gpu=3`, or "0" in a mesh of one rank.
func formatPoint(e shape.Extent, rank int) string {
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

// String returns the original text.
func (t target) String() string {
	if t.region == "" {
		return t.name
	}
	return t.name + "[" + t.region + "]"
}
