package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ProcMesh is a region of a proc mesh.
type ProcMesh struct {
	net    *Net
	desc   agent.Mesh
	region shape.Region
	err    error
}

// Err is the error a bad handle carries, or why its Net has ended.
func (p ProcMesh) Err() error {
	switch {
	case p.err != nil:
		return p.err
	case p.net == nil:
		return errNoMesh
	}
	return p.net.ended()
}

// ID is the mesh's address; a slice has that of its mesh.
func (p ProcMesh) ID() subjects.MeshID { return p.desc.ID }

// Extent is the shape of the region.
func (p ProcMesh) Extent() shape.Extent { return p.region.Extent() }

// Describe is how hosts describe the mesh.
func (p ProcMesh) Describe() agent.Mesh { return p.desc }

// Host is the host of a rank of the region. A world may lack it.
func (p ProcMesh) Host(rank int) (subjects.HostID, error) {
	base, err := p.region.BaseRank(rank)
	if err != nil {
		return subjects.HostID{}, err
	}
	h := p.host(base / p.desc.PerHost)
	if !h.IsValid() {
		return h, p.hostless(base)
	}
	return h, nil
}

// hostless is the error that a rank of a world has no host.
func (p ProcMesh) hostless(base int) error {
	return fmt.Errorf("world %s has no host of rank %d, which would have its rank %d", p.desc.World.World, base/p.desc.PerHost, base)
}

// Slice keeps the indices begin to end-1 along a dimension.
func (p ProcMesh) Slice(label string, begin, end int) ProcMesh {
	if p.err = p.Err(); p.err == nil {
		p.region, p.err = p.region.Slice(label, begin, end)
	}
	return p
}

// Select slices as people write it, such as `host=0:2,gpu=3`. Indices are those of the whole mesh, also on a slice of
// it, as those are in which a cast names who is missing; what is not in the slice is an error.
func (p ProcMesh) Select(text string) ProcMesh {
	if p.err = p.Err(); p.err != nil {
		return p
	}
	r, err := shape.Select(p.desc.Extent, text)
	if err == nil {
		err = r.SubsetOf(p.region)
	}
	p.region, p.err = r, err
	return p
}

// agents is the mesh of the procs' agents: what actor meshes are spawned through.
func (p ProcMesh) agents() ActorMesh[agent.Agent] {
	return ActorMesh[agent.Agent]{procs: p, name: agent.Name}
}

// controller addresses whoever owns the mesh.
func (p ProcMesh) controller() actor.Ref[agent.Agent] {
	return actor.RefOf[agent.Agent](p.desc.Owner).Via(p.net.proc)
}

// Stop stops every proc of the region and returns once each has ended: TERM, 10 s, KILL. The other ranks of the
// mesh go on. A world is stopped as a whole, by the system controller, which forgets it then. Procs that share a process are stopped together: a region that has some of them is an
// *agent.SharedProcessError.
func (p ProcMesh) Stop(ctx context.Context) error {
	if err := p.Err(); err != nil {
		return err
	}
	id := p.desc.ID.String()
	if err := p.desc.CheckPart(p.region); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	if p.desc.World != nil {
		return p.stopWorld(ctx)
	}
	ctx, cancel := within(ctx, config.MeshStopDeadline.Get(p.net.config))
	defer cancel()
	stopping := agent.Stopping{ID: id, Reason: "stopped by its user", Region: &p.region}
	idle := config.ProcStopIdle.Get(p.net.config)
	once, done := context.WithTimeout(ctx, idle)
	o, err := agent.Stop.Urge(once, p.controller(), stopping)
	done()
	if whole := p.region.NumRanks() == p.desc.Extent.NumRanks(); err == nil && whole {
		o, err = settled(ctx, p.controller(), agent.Ended(id), idle, o)
	}
	if gone(err) {
		o, err = p.stopHosts(ctx, stopping) // its owner is: the hosts do it
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	left := statuses(o, p.desc, p.region, func(s agent.Status) bool {
		return !s.Phase.Terminal() && s.Phase != agent.NotExist // hosts forget what ended long ago
	})
	if len(left) > 0 {
		return &StopError{Mesh: id, Ranks: p.region.NumRanks(), Left: left}
	}
	return nil
}

// stopHosts asks the hosts of a region whose mesh has no owner any more. Their answers are by rank of the mesh,
// what comes of them by rank of the region.
func (p ProcMesh) stopHosts(ctx context.Context, s agent.Stopping) (agent.Overlay, error) {
	if p.region.NumRanks() == p.desc.Extent.NumRanks() {
		s.Region = nil // then what they know of the mesh is over
	}
	answers, errs := eachHost(ctx, p.onHosts(), func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.Overlay, error) {
		return agent.Stop.Urge(ctx, a, s)
	})
	by := map[int]agent.Status{}
	for _, o := range answers {
		o.Each(p.desc.Extent.NumRanks(), func(base int, s agent.Status) {
			if view, in := p.region.ViewRank(base); in {
				by[view] = s
			}
		})
	}
	return agent.OverlayOf(by), errors.Join(errs...)
}

// gone reports whether an error says that nobody is there any more.
func gone(err error) bool {
	return errors.Is(err, actor.ErrNoProc) || errors.Is(err, actor.ErrNoActor) || errors.Is(err, actor.ErrProcDead) || errors.Is(err, actor.ErrStopped)
}

// Watch yields the end of every rank of the region, those before it included, until ctx ends or the
// loop is left (MESH-6). Ranks that are started again have not ended: Changes tells of them.
func (p ProcMesh) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return ends(p.Changes(ctx))
}

// Changes yields what becomes of the ranks of the region: their ends, those before it included, and what is
// done about those that are started again.
func (p ProcMesh) Changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return p.watched().changes(ctx)
}

func (p ProcMesh) watched() watched {
	w := watched{
		net: p.net, owner: p.desc.Owner, region: p.region, bad: p.Err(), controllers: []subjects.ActorID{p.desc.Owner},
	}
	if w.bad != nil {
		return w
	}
	space := p.net.proc.Space()
	w.events = []string{space.Events(actor.KindProc, p.desc.ID), space.Events(actor.KindMesh, p.desc.ID)}
	if p.desc.World != nil {
		plain := w
		w.other = func(ctx context.Context) iter.Seq2[actor.Event, error] {
			one := askedWatch{watched: plain, source: &ofWorld{watched: plain, world: p.desc.World.World, mesh: p.desc.ID}, ranks: incarnations{}}
			return one.changes(ctx)
		}
	}
	return w
}

// host is the host of a host's share of the mesh, by its index: the one that took it over last, as far as is
// known here; zero where a world has none.
func (p ProcMesh) host(at int) subjects.HostID {
	p.acquaint()
	if e, ok := p.net.proc.Successor(p.desc.Proc(at*p.desc.PerHost, 0)); ok {
		if h, err := subjects.ParseHostID(e.Host); err == nil {
			return h
		}
	}
	return p.desc.Hosts[at]
}

// Actors lists what runs in each proc of the region.
func (p ProcMesh) Actors(ctx context.Context) (shape.ValueMesh[[]agent.State], error) {
	if err := p.Err(); err != nil {
		return shape.ValueMesh[[]agent.State]{}, err
	}
	ctx, cancel := within(ctx, config.ActorStateIdle.Get(p.net.config))
	defer cancel()
	return cast.Gather(ctx, p.agents(), agent.Get, agent.Query{})
}

// Schemas asks one proc of the region what the actors that run there take and answer: by full name, and by endpoint.
func (p ProcMesh) Schemas(ctx context.Context) (map[string]map[string]agent.Schema, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, config.ActorStateIdle.Get(p.net.config))
	defer cancel()
	states, err := cast.Choose(ctx, p.agents(), agent.Get, agent.Query{Schemas: true})
	out := map[string]map[string]agent.Schema{}
	for _, s := range states {
		if s.Actor != nil {
			out[s.ID] = s.Actor.Schemas
		}
	}
	return out, err
}

// Logs returns the last lines each proc of the region has printed, by base rank. All hosts are asked at once. Hosts that
// do not answer within the deadline (30 s without one) are an *AttachError that names them, beside the lines of the others.
func (p ProcMesh) Logs(ctx context.Context, lines int) ([]agent.LogTail, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, actor.DefaultDeadline)
	defer cancel()
	hosts := p.onHosts()
	asked, errs := eachHost(ctx, hosts, func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.LogTail, error) {
		return agent.Logs.Call(ctx, a, agent.LogQuery{ID: p.desc.ID.String(), Lines: lines})
	})
	var out []agent.LogTail
	for _, tails := range asked {
		for _, t := range tails {
			if p.region.Contains(t.Rank) {
				out = append(out, t)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b agent.LogTail) int { return cmp.Compare(a.Rank, b.Rank) })
	if err := hosts.unreachable(errs); err != nil {
		return out, fmt.Errorf("logs: %w", err)
	}
	return out, nil
}

// Find resolves an actor mesh on the region by its full name or its label.
func Find[A any](ctx context.Context, p ProcMesh, name string) (ActorMesh[A], error) {
	r, err := p.Roster(ctx)
	if err != nil {
		return ActorMesh[A]{}, err
	}
	full, err := r.Find(name)
	if err != nil {
		return ActorMesh[A]{}, err
	}
	m := On[A](p, full)
	m.owner, m.free = r.owners[full], r.free[full]
	return m, nil
}

// On addresses the actors of a full name on a region of procs. Nobody is asked whether there are any.
func On[A any](p ProcMesh, name string) ActorMesh[A] { return ActorMesh[A]{procs: p, name: name} }

// Roster is the actor meshes of a region: what lives there, by full name.
type Roster struct {
	Actors map[string]agent.ActorInfo // each as the first of its ranks describes it

	ended  map[string]agent.Status     // how those ended that live on no rank
	owners map[string]subjects.ActorID // the controllers of those that have one
	free   map[string]bool             // those that nobody owns, made through the agents of their procs

	unasked error // why nobody could say
}

// Roster asks each proc of the region what runs there. Those that do not answer are left out; when none
// does, that is the error.
func (p ProcMesh) Roster(ctx context.Context) (Roster, error) {
	all, err := p.Actors(ctx)
	if err != nil && all.Len() == 0 {
		return Roster{}, err
	}
	r := Roster{Actors: map[string]agent.ActorInfo{}, ended: map[string]agent.Status{}, owners: map[string]subjects.ActorID{}, free: map[string]bool{}, unasked: err}
	for _, states := range all.Values() {
		for _, s := range states {
			if s.Status.Phase.Terminal() && s.Status.Phase > r.ended[s.ID].Phase { // a failure says more than a stop
				r.ended[s.ID] = s.Status
			}
			if _, known := r.Actors[s.ID]; known || s.Status.Phase.Terminal() {
				continue
			}
			r.Actors[s.ID] = agent.ActorInfo{}
			if s.Actor != nil {
				r.Actors[s.ID] = *s.Actor
			}
			if s.Claim != nil {
				r.owners[s.ID] = s.Claim.Owner
			} else {
				r.free[s.ID] = r.Actors[s.ID].Managed
			}
		}
	}
	return r, nil
}

// Find is the full name of the actor mesh that a full name or a label stands for.
func (r Roster) Find(name string) (string, error) {
	names := standsFor(r.Actors, name)
	switch {
	case len(names) == 1:
		return names[0], nil
	case len(names) > 1:
		return "", &AmbiguousError{What: "actor mesh", Name: name, Candidates: names}
	case r.unasked != nil && len(r.Actors) == 0:
		return "", r.unasked
	}
	missing := &NotFoundError{What: "actor mesh", Name: name, Known: slices.Sorted(maps.Keys(r.Actors))}
	if over := standsFor(r.ended, name); len(over) > 0 {
		missing.Ended = fmt.Sprintf("%s %s", over[len(over)-1], r.ended[over[len(over)-1]])
	}
	return "", missing
}

// standsFor are the full names that a full name or a label stands for.
func standsFor[V any](all map[string]V, name string) (names []string) {
	for full := range all {
		if full == name || strings.HasPrefix(full, name+"-") && len(full) == len(name)+1+subjects.UIDLen {
			names = append(names, full)
		}
	}
	slices.Sort(names)
	return names
}

// placement is what casts to the mesh need to know.
func (p ProcMesh) placement() cast.Placement { return controller.Placement(p.desc) }
