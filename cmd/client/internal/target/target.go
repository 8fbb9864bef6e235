package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// Target is (a region of) a mesh in user syntax: `demo[host=0:2,gpu=*]`.
type Target struct {
	Name   string // a mesh's label or ID
	Region string // syntax of shape.Select; "" = all
}

// Parse splits the text. The region is checked against the mesh later.
func Parse(text string) (Target, error) {
	name, rest, sliced := strings.Cut(text, "[")
	region, closed := strings.CutSuffix(rest, "]")
	if sliced && !closed || strings.Contains(region, "[") || strings.Contains(name, "]") {
		return Target{}, cli.Usagef("target %q: want MESH or MESH[region], such as 'demo[host=0:2,gpu=*]'", text)
	}
	if err := subjects.CheckName("mesh", name); err != nil {
		return Target{}, err
	}
	return Target{Name: name, Region: region}, shape.CheckSelection(region)
}

// Resolved is (a region of) a live mesh with the names of its ranks.
type Resolved struct {
	whole  mesh.ProcMesh
	Procs  mesh.ProcMesh // ranks of the region
	Base   shape.Extent
	Region shape.Region
}

// Resolve looks up the target on the bus.
func (t Target) Resolve(ctx context.Context, conn *mesh.Net) (Resolved, error) {
	procs, err := conn.Lookup(ctx, t.Name)
	if err != nil {
		return Resolved{}, OrEmptyWorld(ctx, conn, t.Name, err)
	}
	return t.ResolveIn(procs)
}

// ResolveIn returns the target's region of a mesh.
func (t Target) ResolveIn(procs mesh.ProcMesh) (p Resolved, err error) {
	p = Resolved{whole: procs, Procs: procs.Select(t.Region), Base: procs.Describe().Extent}
	p.Region, err = shape.Select(p.Base, t.Region)
	if err != nil {
		return Resolved{}, cli.WithCode(
			cli.ExitUsage, fmt.Errorf("region of mesh %s, which is %s: %w", t.Name, p.Base, err),
		)
	}
	return p, nil
}

// nameLookupTimeout bounds the wait for procs to list their actors, together with a quarter of the
// remaining time. While silent procs may have a name that the others do not have, they are asked
// again, up to maxNameLookupTimeout.
const (
	nameLookupTimeout    = time.Second
	maxNameLookupTimeout = 4 * nameLookupTimeout
)

// Actors looks up an actor mesh on the region, or on the whole mesh if the region is silent.
func (p Resolved) Actors(ctx context.Context, name string) (mesh.ActorMesh[any], error) {
	within := nameLookupTimeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/4)
	}
	procs := p.Procs
	whole := false
	for {
		full, err := fullActorName(ctx, procs, name, within)
		answered, silent := errors.AsType[*cast.CoverageError](err)
		_, unknown := errors.AsType[*mesh.NotFoundError](err)
		if !silent || ctx.Err() != nil ||
			whole && (len(answered.Coverage.Missing) == 0 || unknown && within >= maxNameLookupTimeout) {
			return mesh.ActorsOn[any](p.Procs, full), err
		}
		procs = p.whole
		whole = true
		within = 2 * within
	}
}

// fullActorName asks procs for the full name of an actor mesh.
func fullActorName(
	ctx context.Context, procs mesh.ProcMesh, name string, within time.Duration,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	roster, err := procs.ListActors(ctx)
	if err != nil {
		return "", err
	}
	return roster.Find(name)
}

// Point returns the coordinates of a rank of the region in the whole mesh, in target syntax.
func (p Resolved) Point(view int) string { return inspect.Point(p.Base, p.Rank(view)) }

// Rank converts a rank of the region to one of the whole mesh.
func (p Resolved) Rank(view int) int {
	base, err := p.Region.BaseRank(view)
	if err != nil {
		return -1
	}
	return base
}

// String returns the original text.
func (t Target) String() string {
	if t.Region == "" {
		return t.Name
	}
	return t.Name + "[" + t.Region + "]"
}

// WithMissingHosts makes an error a not-found error, or names the silent hosts: they may have what
// was not found.
func WithMissingHosts(inv mesh.Inventory, err error) error {
	missing := inv.Err()
	if missing == nil {
		return cli.WithCode(cli.ExitNotFound, err)
	}
	if _, named := errors.AsType[*mesh.MissingHostsError](err); named {
		return err
	}
	return fmt.Errorf("%w; %w", err, missing)
}

// MissingHosts names the target's hosts without an answer, or returns nil.
func (p Resolved) MissingHosts(inv mesh.Inventory, t Target) error {
	ranks, hosts := inv.MissingRanks(p.Procs)
	if len(ranks) == 0 {
		return nil
	}
	return MissingRanks(t, len(ranks), p.Region.NumRanks(), hosts)
}

// MissingRanks reports that ranks of a target are missing with their hosts.
func MissingRanks(t Target, missing, ranks int, hosts []mesh.HostState) error {
	var names []string
	for _, h := range hosts {
		names = append(names, h.String())
	}
	return cli.WithCode(cli.ExitPartial, fmt.Errorf("%d of %s of %s missing: no answer from %s", missing,
		text.Pluralize(ranks, "rank"), t, text.Names(names)))
}

// OrEmptyWorld replaces the error of an unknown mesh if a world has the name.
func OrEmptyWorld(ctx context.Context, conn *mesh.Net, name string, missing error) error {
	w, _, ok := inspect.FindEmptyWorld(ctx, conn, name, missing)
	if !ok {
		return missing
	}
	err := error(&inspect.EmptyWorldError{World: w})
	if silent, partial := errors.AsType[*mesh.MissingHostsError](missing); partial {
		return fmt.Errorf("%w; %w", err, silent)
	}
	return cli.WithCode(cli.ExitNotFound, err)
}

// Located is a target with the hosts that were asked for it.
type Located struct {
	Resolved
	Target    Target
	Inventory mesh.Inventory
	Missing   error // names the silent hosts that may have a live mesh, if this one has ended
}

// ResolveWithEnded finds a live mesh, else the newest ended one, whose hosts keep its output for a
// while.
func (t Target) ResolveWithEnded(ctx context.Context, conn *mesh.Net) (Located, error) {
	inv, m, missing, err := inspect.FindWithEnded(ctx, conn, t.Name)
	if err != nil {
		return Located{}, OrEmptyWorld(ctx, conn, t.Name, err)
	}
	p, err := t.ResolveIn(m.Procs)
	return Located{Resolved: p, Target: t, Inventory: inv, Missing: missing}, err
}

// LogTrouble says why hosts of the target may lose output; "": they keep it.
func (l Located) LogTrouble() string {
	here := map[subjects.HostID]bool{}
	for view := range l.Region.NumRanks() {
		if h, err := l.Procs.Host(view); err == nil {
			here[h] = true
		}
	}
	var infos []agent.HostInfo
	for _, h := range l.Inventory.Hosts {
		if here[h.ID] {
			infos = append(infos, h.HostInfo)
		}
	}
	return LogTrouble(infos)
}

// Inspect asks all parties of a whole mesh. missing names the silent hosts that may have a live
// one.
func (t Target) Inspect(ctx context.Context, conn *mesh.Net) (v inspect.View, missing, err error) {
	v, missing, err = inspect.Mesh(ctx, conn, t.Name)
	if _, empty := errors.AsType[*inspect.EmptyWorldError](err); empty {
		err = cli.WithCode(cli.ExitNotFound, err)
	}
	return v, missing, err
}

// ParseMesh parses the name of a whole mesh.
func ParseMesh(text, verb string) (Target, error) {
	t, err := Parse(text)
	if err == nil && t.Region != "" {
		err = cli.Usagef("%s takes a whole mesh: want %s, got %s", verb, t.Name, t)
	}
	return t, err
}

// FindSystem finds the system controller.
func FindSystem(ctx context.Context, conn *mesh.Net) (actor.Ref[*system.Controller], error) {
	ref, err := system.Find(ctx, conn.Proc())
	if errors.Is(err, system.ErrNoController) {
		err = cli.WithCode(cli.ExitNotFound, err)
	}
	return ref, err
}
