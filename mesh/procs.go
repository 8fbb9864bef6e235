package mesh

import (
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
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ProcMesh is a region of a proc mesh.
type ProcMesh struct {
	net    *Net
	desc   agent.Mesh
	region shape.Region
	err    error
}

// Err returns the error of a bad handle, or the cause of its Net's end.
func (p ProcMesh) Err() error {
	p = current(p)
	if p.err != nil {
		return p.err
	}
	if p.net == nil && p.desc.ID.IsValid() {
		return errUnbound
	}
	if p.net == nil {
		return errNoMesh
	}
	return p.net.endCause()
}

// ID is the mesh's address. A slice has the ID of its mesh.
func (p ProcMesh) ID() subjects.MeshID { return p.desc.ID }

// Extent is the shape of the region.
func (p ProcMesh) Extent() shape.Extent { return current(p).region.Extent() }

// Region is the region in the extent of the whole mesh.
func (p ProcMesh) Region() shape.Region { return current(p).region }

// Describe returns the description of the mesh that its hosts have.
func (p ProcMesh) Describe() agent.Mesh { return current(p).desc }

// Host returns the host of a rank of the region. A world may lack it.
func (p ProcMesh) Host(rank int) (subjects.HostID, error) {
	p = current(p)
	base, err := p.region.BaseRank(rank)
	if err != nil {
		return subjects.HostID{}, err
	}
	h := p.shareHost(base / p.desc.PerHost)
	if !h.IsValid() {
		return h, noHostError(p.desc, base)
	}
	return h, nil
}

// noHostError is the error that a rank of a world has no host.
func noHostError(m agent.Mesh, base int) error {
	return fmt.Errorf("world %s has no host of rank %d for its rank %d",
		m.World.World, base/m.PerHost, base)
}

// Slice keeps the indices begin to end-1 along a dimension.
func (p ProcMesh) Slice(label string, begin, end int) ProcMesh {
	p = current(p)
	p.err = p.Err()
	if p.err == nil {
		p.region, p.err = p.region.Slice(label, begin, end)
	}
	return p
}

// Select slices by text, such as `host=0:2,gpu=3`. Indices are those of the whole mesh, also on a
// slice of it, as in the errors of casts. An index outside the slice is an error.
func (p ProcMesh) Select(text string) ProcMesh {
	p = current(p)
	p.err = p.Err()
	if p.err != nil {
		return p
	}
	r, err := shape.Select(p.desc.Extent, text)
	if err == nil {
		err = r.SubsetOf(p.region)
	}
	p.region = r
	p.err = err
	return p
}

// agentsOf is the mesh of the procs' agents, which spawn actors. It is no method: a program that
// imports a type compiles all generic types in the signatures of its methods.
func agentsOf(p ProcMesh) ActorMesh[agent.Agent] { return ActorsOn[agent.Agent](p, agent.Name) }

// controller addresses the owner of the mesh.
func (p ProcMesh) controller() actor.Ref[agent.Agent] {
	return actor.RefOf[agent.Agent](p.desc.Owner).Via(p.net.proc)
}

// stoppedByUser is the reason of a Stop without one.
const stoppedByUser = "stopped by its user"

// Stop stops every proc of the region and returns once each has ended: TERM, 10 s, KILL. The other
// ranks of the mesh continue. The system controller stops a world as a whole, and then removes it.
// Colocated procs stop together: a region with only some of them is an *agent.SharedProcessError.
// An operator may also stop procs of other users (AGT-13).
func (p ProcMesh) Stop(ctx context.Context) error { return p.StopWithReason(ctx, stoppedByUser) }

// StopWithReason is Stop with a reason for events, states and logs.
func (p ProcMesh) StopWithReason(ctx context.Context, reason string) error {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return err
	}
	id := p.desc.ID.String()
	if err := p.desc.CheckRegion(p.region); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	if p.desc.World != nil {
		return stopWorld(ctx, p, reason)
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(p.net.config))
	defer cancel()
	stopping := agent.StopRequest{ID: id, Reason: reason, Region: &p.region}
	progressTimeout := config.ProcStopProgressTimeout.Get(p.net.config)
	whole := p.region.NumRanks() == p.desc.Extent.NumRanks()
	first := progressTimeout
	if whole {
		first /= progressChecks // awaitSettled waits on
	}
	once, done := context.WithTimeout(ctx, first)
	o, err := repeatBroken(once, func(ctx context.Context) (agent.Overlay, error) {
		return agent.Stop.CallUrgent(ctx, p.controller(), stopping)
	})
	done()
	if whole && errors.Is(err, context.DeadlineExceeded) {
		o, err = lateStatuses(ctx, p.controller(), id)
	}
	if whole && err == nil {
		o, err = awaitSettled(ctx, p.controller(), agent.UntilEnded(id), progressTimeout, o)
	}
	if isUnreachable(err) {
		o, err = stopAtHosts(ctx, p, stopping) // the owner is gone
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	left := rankStatuses(o, p.desc, p.region, func(s agent.Status) bool {
		return !s.Phase.Terminal() && s.Phase != agent.NotExist // hosts forget what ended long ago
	})
	if len(left) > 0 {
		return &StopError{Mesh: id, Ranks: p.region.NumRanks(), Remaining: left}
	}
	return nil
}

// stopAtHosts stops a region without a live owner at its hosts. Their replies are by rank of the
// mesh; the result is by rank of the region.
func stopAtHosts(ctx context.Context, p ProcMesh, s agent.StopRequest) (agent.Overlay, error) {
	if p.region.NumRanks() == p.desc.Extent.NumRanks() {
		s.Region = nil // the hosts then forget the mesh
	}
	stop := func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.Overlay, error) {
		return agent.Stop.CallUrgent(ctx, a, s)
	}
	answers, errs := eachHost(ctx, hostsOf(p), stop)
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

// repeatBroken repeats a request while its link breaks. An ending process closes its links first;
// the next request finds it gone.
func repeatBroken[R any](ctx context.Context, ask func(context.Context) (R, error)) (R, error) {
	for {
		r, err := ask(ctx)
		if !errors.Is(err, actor.ErrLinkBroken) || ctx.Err() != nil {
			return r, err
		}
	}
}

// isUnreachable reports whether an error means that the receiver is gone.
func isUnreachable(err error) bool {
	return actor.IsGone(err) || errors.Is(err, errHostDead)
}

// Watch yields the end of every rank of the region, earlier ends included, until ctx ends or the
// loop is left (MESH-6). Restarted ranks have not ended: Changes reports them.
func (p ProcMesh) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return ends(p.Changes(ctx))
}

// Changes yields the changes of the region's ranks: their ends, earlier ones included, and the
// progress of restarts.
func (p ProcMesh) Changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return watchedProcs(resolved(p)).changes(ctx)
}

func watchedProcs(p ProcMesh) watchTarget {
	d := p.desc
	w := watchTarget{
		net: p.net, extent: d.Extent, region: p.region, mesh: d.ID.String(), bad: p.Err(),
		controllers: []subjects.ActorID{d.Owner},
	}
	if d.World != nil {
		w.find = from(&worldSource{
			net: p.net, world: d.World.World, mesh: d.ID, ranks: d.Extent.NumRanks(), by: d.Owner,
		})
	} else {
		w.find = from(controllerSource{p.net, d.Owner, d.ID, ""})
		w.leftover = hostLister{wholeOf(p)}
	}
	return w
}

// wholeOf returns the mesh of a region.
func wholeOf(p ProcMesh) ProcMesh {
	p.region = p.desc.Extent.Region()
	return p
}

// hostLister lists the ended procs of a mesh as their hosts know them.
type hostLister struct{ procs ProcMesh }

func (h hostLister) list(ctx context.Context, _ uint64, _ func() rankStates) (l eventList, err error) {
	ctx, cancel := context.WithTimeout(ctx, listInterval(h.procs.net))
	defer cancel()
	states, err := h.procs.States(ctx)
	for rank, s := range states.Values() {
		if s.Status.Phase.Terminal() {
			l.events = append(l.events, h.procs.eventOf("", rank, s.Gen, s.Status))
		}
	}
	return l, err
}

// SelectLabels returns the ranks of the region on hosts that have these labels, each with that
// value. It asks the hosts, and passes over gone ones. The result selects ranks of casts
// (cast.Select), alone or in a union.
func (p ProcMesh) SelectLabels(ctx context.Context, labels map[string]string) (shape.Selection, error) {
	if err := p.Err(); err != nil {
		return shape.Selection{}, err
	}
	ctx, cancel := withTimeout(ctx, config.ProcQueryTimeout.Get(p.net.config))
	defer cancel()
	hosts := hostsOf(p)
	infos, errs := hosts.askInfos(ctx)
	if err := p.net.ignoreLeft(errs); err != nil { // ranks on a host that has left have ended
		return shape.Selection{}, err
	}
	if err := hosts.unreachable(errs); err != nil {
		return shape.Selection{}, err
	}
	matches := map[subjects.HostID]bool{}
	for _, info := range infos {
		matches[info.ID] = info.ID.IsValid()
		for key, value := range labels {
			has, ok := info.Labels[key]
			matches[info.ID] = matches[info.ID] && ok && has == value
		}
	}
	var ranks []int
	for view, base := range p.region.Ranks() {
		if matches[p.shareHost(base/p.desc.PerHost)] {
			ranks = append(ranks, view)
		}
	}
	return shape.SelectionOfRanks(p.Extent(), ranks)
}

// resolveHolders learns the present holders of the ranks (MESH-11).
func resolveHolders(p ProcMesh) {
	if p.Err() == nil {
		p.net.placements.resolve(p.desc)
	}
}

// shareHost returns the present host of a share of the mesh, by index, as this process knows it. It
// is zero for a share of a world without a host.
func (p ProcMesh) shareHost(at int) subjects.HostID { return p.rankHost(at * p.desc.PerHost) }

// rankHost is shareHost of one rank of the mesh, which may have moved alone.
func (p ProcMesh) rankHost(base int) subjects.HostID {
	if p.net == nil {
		return p.desc.Hosts[base/p.desc.PerHost] // as its text has it
	}
	resolveHolders(p)
	if e, ok := p.net.proc.Members().Successor(p.desc.ProcID(base, 0)); ok {
		if h, err := subjects.ParseHostID(e.Host); err == nil {
			return h
		}
	}
	return p.desc.Hosts[base/p.desc.PerHost]
}

// Actors lists the actors in each proc of the region.
func (p ProcMesh) Actors(ctx context.Context) (shape.ValueMesh[[]agent.State], error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return shape.ValueMesh[[]agent.State]{}, err
	}
	ctx, cancel := withTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	return cast.Gather(ctx, agentsOf(p), agent.Get, agent.GetRequest{})
}

// Profile takes a profile of each process of the region, in the format of pprof. Ranks that share a
// process with an earlier rank have none. ctx needs time for a profile of the CPU. The error names
// ranks without an answer and comes with the profiles of the others.
func (p ProcMesh) Profile(ctx context.Context, r agent.ProfileRequest) (shape.ValueMesh[[]byte], error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return shape.ValueMesh[[]byte]{}, err
	}
	ctx, cancel := withTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config)+r.Duration)
	defer cancel()
	return cast.Gather(ctx, agentsOf(p), agent.GetProfile, r)
}

// Casts returns the casts whose replies the procs of the region fold or gather, as far as they have
// come. In a second question each process tells its part of them. The error names ranks without an
// answer and comes with what the others know.
func (p ProcMesh) Casts(ctx context.Context) (agent.Casts, error) {
	p = resolved(p)
	return p.castsKnownTo(ctx, agentsOf(p))
}

// CastsKnownTo is Casts with questions to the procs of some ranks alone.
func (p ProcMesh) CastsKnownTo(ctx context.Context, ranks shape.Selection) (agent.Casts, error) {
	p = resolved(p)
	return p.castsKnownTo(ctx, cast.Select(agentsOf(p), ranks))
}

func (p ProcMesh) castsKnownTo(ctx context.Context, agents cast.Mesh[agent.Agent]) (agent.Casts, error) {
	if err := p.Err(); err != nil {
		return agent.Casts{}, err
	}
	ctx, cancel := withTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	running, err := cast.Reduce(ctx, agents, agent.GetCasts, agent.CastsRequest{}, agent.MergeCasts)
	if len(running.Casts) == 0 {
		return running, err
	}
	var named agent.CastsRequest
	for _, c := range running.Casts {
		named.Named = append(named.Named, c.ID)
	}
	parts, err := cast.Reduce(ctx, agents, agent.GetCasts, named, agent.MergeCasts)
	parts.Casts = slices.DeleteFunc(parts.Casts, func(c agent.RunningCast) bool {
		return !slices.Contains(named.Named, c.ID) || c.Waiting.IsEmpty() // it came later, or is over
	})
	parts.More = running.More
	return parts, err
}

// Schemas asks one proc of the region for the schemas of its actors, by full name and endpoint.
func (p ProcMesh) Schemas(ctx context.Context) (map[string]map[string]agent.Schema, error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	states, err := cast.Choose(ctx, agentsOf(p), agent.Get, agent.GetRequest{Schemas: true})
	out := map[string]map[string]agent.Schema{}
	for _, s := range states {
		if s.Actor != nil {
			out[s.ID] = s.Actor.Schemas
		}
	}
	return out, err
}

// Find resolves an actor mesh on the region by its full name or its label.
func Find[A any](ctx context.Context, p ProcMesh, name string) (ActorMesh[A], error) {
	m, err := find(ctx, p, name)
	return ActorMesh[A]{m}, err
}

func find(ctx context.Context, p ProcMesh, name string) (actorMesh, error) {
	r, err := p.ListActors(ctx)
	if err != nil {
		return actorMesh{}, err
	}
	full, err := r.Find(name)
	if err != nil {
		return actorMesh{}, err
	}
	return actorMesh{p, full, r.owners[full], r.uncontrolled[full]}, nil
}

// ActorsOn addresses the actors of a full name on a region of procs. It does not check that they
// exist.
func ActorsOn[A any](p ProcMesh, name string) ActorMesh[A] {
	return ActorMesh[A]{actorMesh{procs: p, name: name}}
}

// ActorList is the live actor meshes of a region, by full name.
type ActorList struct {
	Actors map[string]agent.ActorInfo // from the first rank of each

	ended        map[string]agent.Status     // the ends of actors that live on no rank
	owners       map[string]subjects.ActorID // the controllers
	uncontrolled map[string]bool             // actors without a controller, made through the agents
	where        string                      // the region; "": the whole mesh

	err error // the errors of silent procs
}

// ListActors asks each proc of the region for its actors. It omits silent procs; if all are silent,
// it returns their error.
func (p ProcMesh) ListActors(ctx context.Context) (ActorList, error) {
	p = resolved(p)
	all, err := p.Actors(ctx)
	if err != nil && all.Len() == 0 {
		return ActorList{}, err
	}
	r := ActorList{
		Actors:       map[string]agent.ActorInfo{},
		ended:        map[string]agent.Status{},
		owners:       map[string]subjects.ActorID{},
		uncontrolled: map[string]bool{},
		err:          err,
	}
	if p.region.NumRanks() < p.desc.Extent.NumRanks() {
		var ranks []int
		for _, base := range p.region.Ranks() {
			ranks = append(ranks, base)
		}
		r.where = "[" + shape.Describe(p.desc.Extent, ranks) + "]"
	}
	for _, states := range all.Values() {
		for _, s := range states {
			if s.Status.Phase.Terminal() && s.Status.Phase > r.ended[s.ID].Phase { // prefer a failure to a stop
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
				r.uncontrolled[s.ID] = r.Actors[s.ID].Managed
			}
		}
	}
	return r, nil
}

// Find returns the full name of the actor mesh with a full name or a label. A silent proc may have
// it: then the error holds a *cast.CoverageError beside the *NotFoundError.
func (r ActorList) Find(name string) (string, error) {
	names := matchingNames(r.Actors, name)
	switch {
	case len(names) == 1:
		return names[0], nil
	case len(names) > 1:
		return "", &AmbiguousError{What: "actor mesh", Name: name, Candidates: names}
	case r.err != nil && len(r.Actors) == 0:
		return "", r.err
	}
	missing := &NotFoundError{What: "actor mesh", Name: name, Known: slices.Sorted(maps.Keys(r.Actors))}
	if over := matchingNames(r.ended, name); len(over) > 0 {
		missing.Where = r.where
		missing.Ended = fmt.Sprintf("%s %s", over[len(over)-1], r.ended[over[len(over)-1]])
	}
	if silent, is := errors.AsType[*cast.CoverageError](r.err); is && len(silent.Coverage.Missing) > 0 {
		return "", errors.Join(missing, r.err)
	}
	return "", missing
}

// matchingNames returns the full names that match a full name or a label.
func matchingNames[V any](all map[string]V, name string) (names []string) {
	for full := range all {
		if full == name || strings.HasPrefix(full, name+"-") && len(full) == len(name)+1+subjects.UIDLen {
			names = append(names, full)
		}
	}
	slices.Sort(names)
	return names
}
