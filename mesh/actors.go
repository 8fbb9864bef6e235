package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ActorMesh is a region of an actor mesh: one actor of Go type A in every proc of a region. It is a
// value. Its text is name|owner|procs; Via binds a decoded one to a Net.
type ActorMesh[A any] struct{ actorMesh }

// actorMesh is the part of an ActorMesh without the Go type. Programs compile an ActorMesh for each
// of their types, and this part once. Its unexported operations are functions: methods of an
// embedded type are compiled again for each.
type actorMesh struct {
	procs        ProcMesh
	name         string           // the actors' shared name
	owner        subjects.ActorID // its controller; zero: unknown, or none
	uncontrolled bool             // it has no controller
}

// ActorSpawnSpec describes the actors to spawn.
type ActorSpawnSpec[P any] struct {
	Label  string        // of the fresh name they share
	Params P             // for each constructor
	Lease  time.Duration // how long the actors outlive a lost owner; 0: supervision.lease-ttl, less: for ever

	// RestartPolicy is for failed actors; the owner applies it. The zero value leaves
	// them failed.
	RestartPolicy RestartPolicy
	// Display is the name of the mesh in events and reports; "": reports show its label.
	Display string

	// ProgressTimeout ends the wait for the ranks when none has made progress for this long. 0:
	// actor.spawn-progress-timeout; negative: only the deadline ends it. Actors without owner give
	// one reply, so it bounds the wait for that.
	ProgressTimeout time.Duration
	// AllowPartial keeps the started ranks when others fail: the mesh is returned beside the error.
	// If no rank started, there is no mesh.
	AllowPartial bool
	// Uncontrolled makes actors without owner. They live until a stop or the end of their procs. No
	// policy applies to them.
	Uncontrolled bool
	// Linked makes actors without owner that belong to the calling actor, as its children do. They
	// stop once it is gone, and it handles their ends (actor.Supervisor, MESH-26). No policy applies
	// to them.
	Linked bool
}

// Spawn starts an actor of a type in every proc of a region, under one fresh name that starts with
// label. A constructor that fails anywhere fails the spawn and names the rank (MESH-3).
func Spawn[A, P any](
	ctx context.Context, procs ProcMesh, typ actor.Type[A, P], label string, params P,
) (ActorMesh[A], error) {
	return SpawnActors(ctx, procs, typ, ActorSpawnSpec[P]{Label: label, Params: params})
}

// SpawnActors is Spawn with all options.
func SpawnActors[A, P any](
	ctx context.Context, procs ProcMesh, typ actor.Type[A, P], s ActorSpawnSpec[P],
) (ActorMesh[A], error) {
	ctx, span := startSpan(ctx, procs.net, "actors", s.Label)
	m, err := spawnActors(ctx, procs, typ.Name(), ActorSpawnSpec[any]{
		Label: s.Label, Params: s.Params, Lease: s.Lease, RestartPolicy: s.RestartPolicy, Display: s.Display,
		ProgressTimeout: s.ProgressTimeout, AllowPartial: s.AllowPartial, Uncontrolled: s.Uncontrolled,
		Linked: s.Linked,
	})
	endSpan(span, err)
	return ActorMesh[A]{m}, err
}

func spawnActors(
	ctx context.Context, procs ProcMesh, typ string, s ActorSpawnSpec[any],
) (actorMesh, error) {
	fail := func(err error) (actorMesh, error) {
		return actorMesh{}, &RefusedError{"actors", s.Label, err}
	}
	procs = resolved(procs) // its controller begins with the present procs, as the process knows them
	if err := cmp.Or(procs.Err(), actor.NewType[any, any](typ).Err()); err != nil {
		return fail(err)
	}
	uncontrolled := s.Uncontrolled || s.Linked
	if uncontrolled && s.RestartPolicy.Restart != Propagate {
		return fail(fmt.Errorf("restart policy %s of uncontrolled actors: want %s, as they have no owner",
			s.RestartPolicy.Restart, Propagate))
	}
	caller, callerName, _ := actor.Sender(ctx, nil)
	if s.Linked && caller == nil {
		return fail(errors.New("linked actors: want the Context of the actor that they belong to"))
	}
	name, err := subjects.NewName(s.Label)
	if err != nil {
		return fail(err)
	}
	raw, err := wire.Marshal(s.Params)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(procs.net.config))
	defer cancel()
	if !s.AllowPartial {
		if err := checkType(ctx, procs, typ); err != nil {
			return fail(err)
		}
	}
	actors := agent.ActorSpec{Name: name, Type: typ, Params: raw}
	progressTimeout := cmp.Or(s.ProgressTimeout, config.ActorSpawnProgressTimeout.Get(procs.net.config))
	m := actorMesh{procs: procs, name: name, uncontrolled: uncontrolled}
	succeeds := func(err error) bool { return err == nil || s.AllowPartial && isPartial(err) }
	if uncontrolled {
		actors.Owner = procs.net.proc.ID().Actor(agent.Name)
		if s.Linked {
			actors.Owner = caller.ID().Actor(callerName)
			actors.Linked = true
		}
		err := createUncontrolled(ctx, procs, actors, progressTimeout)
		if s.Linked && succeeds(err) {
			err = cmp.Or(superviseStarted(ctx, m, err), err)
		}
		if succeeds(err) {
			return m, err
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx),
			config.MeshCleanupTimeout.Get(procs.net.config))
		defer cancel()
		_, stopping := stopUncontrolled(stop, m, "its spawn failed")
		return actorMesh{}, errors.Join(err, stopping)
	}
	owner, err := procs.net.controllers.start(ctx, controller.Spec{
		Procs: procs.desc, Region: procs.region, Actors: &actors, Lease: s.Lease,
		RestartPolicy: s.RestartPolicy, Name: s.Display,
	})
	if err != nil {
		return fail(err)
	}
	m.owner = owner.ID()
	err = startMesh(ctx, owner, name, procs.desc, procs.region, progressTimeout, s.AllowPartial)
	if succeeds(err) {
		err = cmp.Or(followGrow(ctx, m), err)
	}
	if succeeds(err) {
		return m, err
	}
	return actorMesh{}, abandonSpawn(ctx, procs.net, owner, name, err)
}

// checkType refuses an actor type that the procs' ready reports do not name. A host knows those of
// its procs. Without its answer the procs find out.
func checkType(ctx context.Context, p ProcMesh, typ string) error {
	id := p.desc.ID
	cache := p.net.placements
	if slices.Contains(cache.typesOf(id), typ) {
		return nil
	}
	first, err := p.region.BaseRank(0)
	if err != nil {
		return err
	}
	host := p.shareHost(first / p.desc.PerHost)
	if !host.IsValid() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	known, err := agent.Types.Call(ctx, agent.Of(host.Proc()).Via(p.net.proc), id.String())
	if err != nil || len(known) == 0 {
		return nil
	}
	cache.noteTypes(id, known)
	if !slices.Contains(known, typ) {
		return fmt.Errorf("actor type %q is not known to the procs of %s; they know %s", typ, id,
			joinSome(known, maxListed))
	}
	return nil
}

// isPartial reports whether a failed spawn has started some ranks.
func isPartial(err error) bool {
	some, ok := errors.AsType[*SpawnError](err)
	return ok && len(some.Failed) < some.Ranks
}

// createUncontrolled creates actors without a controller and waits up to progressTimeout until they
// run.
func createUncontrolled(
	ctx context.Context, p ProcMesh, spec agent.ActorSpec, progressTimeout time.Duration,
) error {
	began := time.Now()
	if progressTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, progressTimeout)
		defer cancel()
	}
	creation := agent.CreateRequest{Actors: &spec, Wait: true}
	o, err := cast.Reduce(ctx, agentsOf(p), agent.Create, creation, agent.MergeOverlays)
	silent, err := statusesByRank(err)
	if err != nil {
		return fmt.Errorf("spawn %s: %w", spec.Name, err)
	}
	failed := unstarted(o, p.desc, p.region, began)
	for i, f := range failed {
		view, _ := p.region.ViewRank(f.Rank) // unstarted returns ranks of the region only
		if why, is := silent[view]; is {
			failed[i].Status = why
		}
	}
	if len(failed) > 0 {
		return &SpawnError{Mesh: spec.Name, Ranks: p.region.NumRanks(), Failed: failed}
	}
	return nil
}

// superviseStarted makes the calling actor handle the ends of its linked actors, but of those that
// the error of their spawn names.
func superviseStarted(ctx context.Context, m actorMesh, spawn error) error {
	var failed []RankStatus
	if e, partial := errors.AsType[*SpawnError](spawn); partial {
		failed = e.Failed
	}
	for view, base := range m.procs.region.Ranks() {
		if slices.ContainsFunc(failed, func(f RankStatus) bool { return f.Rank == base }) {
			continue
		}
		_, id, err := atRank(m, view)
		if err == nil {
			err = actor.Supervise(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("spawn %s: %w", m.name, err)
		}
	}
	return nil
}

// Service is an actor of a type in every proc of a region, under a fixed name without uid. It
// creates missing actors and shares existing ones between all callers. Another type or other params
// under the name are a conflict. A service has no owner: it lives until a stop or the end of its
// procs.
func Service[A, P any](
	ctx context.Context, procs ProcMesh, typ actor.Type[A, P], name string, params P,
) (ActorMesh[A], error) {
	m, err := spawnService(ctx, procs, typ.Name(), name, params)
	return ActorMesh[A]{m}, err
}

func spawnService(
	ctx context.Context, procs ProcMesh, typ, name string, params any,
) (actorMesh, error) {
	procs = resolved(procs)
	err := cmp.Or(procs.Err(), actor.NewType[any, any](typ).Err(), subjects.CheckLabel("service", name))
	if err == nil && name == agent.Name {
		err = fmt.Errorf("the name belongs to the agent of a proc: want another name")
	}
	if err == nil {
		err = checkType(ctx, procs, typ)
	}
	var raw []byte
	if err == nil {
		raw, err = wire.Marshal(params)
	}
	if err != nil {
		return actorMesh{}, &RefusedError{"service", name, err}
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(procs.net.config))
	defer cancel()
	spec := agent.ActorSpec{Name: name, Type: typ, Params: raw, Owner: procs.desc.Owner}
	limit := config.ActorSpawnProgressTimeout.Get(procs.net.config)
	if err := createUncontrolled(ctx, procs, spec, limit); err != nil {
		return actorMesh{}, fmt.Errorf("service %q: %w", name, err)
	}
	return actorMesh{procs: procs, name: name, uncontrolled: true}, nil
}

// Err returns the error of a bad handle.
func (m actorMesh) Err() error { return m.procs.Err() }

// Name is the name the actors share within their procs.
func (m actorMesh) Name() string { return m.name }

// Procs is the region of the proc mesh the actors live in.
func (m actorMesh) Procs() ProcMesh { return current(m.procs) }

// Extent is the shape of the region.
func (m actorMesh) Extent() shape.Extent { return m.procs.Extent() }

// Target returns the recipients of a cast; it makes the mesh a cast.Mesh. An actor can cast to a
// decoded handle that is bound to no Net.
func (m actorMesh) Target() (cast.Target, error) {
	err := m.Err()
	if errors.Is(err, errUnbound) {
		return cast.Target{
			Placement: controller.Placement(m.procs.desc), Actor: m.name, Region: m.procs.region,
			Resolve: func(sender *actor.Proc) { placementCacheOf(sender).resolve(m.procs.desc) },
		}, nil
	}
	if err != nil {
		return cast.Target{}, err
	}
	m.procs = resolved(m.procs)
	if err := m.procs.err; err != nil {
		return cast.Target{}, err
	}
	return cast.Target{
		Via: m.procs.net.proc, Placement: controller.Placement(m.procs.desc), Actor: m.name, Region: m.procs.region,
	}, nil
}

// Ref addresses one rank of the region.
func (m ActorMesh[A]) Ref(rank int) actor.Ref[A] { return refOf[A](atRank(m.actorMesh, rank)) }

// At addresses the actor at one point, given as pairs of label and index: At("host", 0, "gpu", 3).
// Dimensions of size 1 may be omitted. Calls through the ref return the error of bad pairs.
func (m ActorMesh[A]) At(pairs ...any) actor.Ref[A] { return refOf[A](atPoint(m.actorMesh, pairs)) }

// refOf is the ref of an actor that a proc sends to.
func refOf[A any](p *actor.Proc, id subjects.ActorID, err error) actor.Ref[A] {
	if err != nil {
		return actor.ErrRef[A](err)
	}
	return actor.RefOf[A](id).Via(p)
}

// atRank returns the actor of a rank of the region, and the proc that sends to it.
func atRank(m actorMesh, rank int) (*actor.Proc, subjects.ActorID, error) {
	if err := m.Err(); err != nil {
		return nil, subjects.ActorID{}, err
	}
	m.procs = resolved(m.procs)
	if err := m.procs.err; err != nil {
		return nil, subjects.ActorID{}, err
	}
	base, err := m.procs.region.BaseRank(rank)
	if err != nil {
		return nil, subjects.ActorID{}, err
	}
	p := m.procs.net.proc
	return p, p.Members().LatestGeneration(controller.Placement(m.procs.desc).Proc(base)).Actor(m.name), nil
}

// atPoint is atRank for the only rank at pairs of label and index.
func atPoint(m actorMesh, pairs []any) (*actor.Proc, subjects.ActorID, error) {
	fail := func(err error) (*actor.Proc, subjects.ActorID, error) { return nil, subjects.ActorID{}, err }
	if err := m.Err(); err != nil {
		return fail(err)
	}
	if len(pairs)%2 != 0 {
		return fail(fmt.Errorf("at %v: want pairs of label and index", pairs))
	}
	m.procs = resolved(m.procs)
	extent := m.Extent()
	for i := 0; i < len(pairs); i += 2 {
		label, ok := pairs[i].(string)
		index, ok2 := pairs[i+1].(int)
		if !ok || !ok2 {
			return fail(fmt.Errorf("at %v: want a label (string) and an index (int), got %T and %T",
				pairs, pairs[i], pairs[i+1]))
		}
		var err error
		m.procs.region, err = m.procs.region.Index(label, index)
		if err != nil {
			return fail(err)
		}
	}
	if n := m.procs.region.NumRanks(); n != 1 {
		return fail(fmt.Errorf("at %v: want an index for every dimension of %s: %d actors match",
			pairs, extent, n))
	}
	return atRank(m, 0)
}

// Slice keeps the indices begin to end-1 along a dimension.
func (m ActorMesh[A]) Slice(label string, begin, end int) ActorMesh[A] {
	m.procs = m.procs.Slice(label, begin, end)
	return m
}

// Select slices by text, such as `host=0:2,gpu=3`, with indices of the whole mesh: see
// ProcMesh.Select.
func (m ActorMesh[A]) Select(text string) ActorMesh[A] {
	m.procs = m.procs.Select(text)
	return m
}

// Stop stops the actors of the region, each after its accepted messages, and returns once all have
// ended. A *StopError lists the ranks still alive at the deadline. Other actors of the mesh
// continue. Only the program that spawned the mesh may stop it; a mesh without owner may be
// stopped by any program.
func (m actorMesh) Stop(ctx context.Context) error { return m.StopWithReason(ctx, stoppedByUser) }

// StopWithReason is Stop with a reason for events, states and logs.
func (m actorMesh) StopWithReason(ctx context.Context, reason string) error {
	m.procs = resolved(m.procs)
	if err := m.Err(); err != nil {
		return err
	}
	if !m.uncontrolled && m.owner.Proc != m.procs.net.proc.ID() {
		return fmt.Errorf("stop %s: %w", m.name, &OwnerError{Owner: m.owner})
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(m.procs.net.config))
	defer cancel()
	var o agent.Overlay
	var err error
	if m.uncontrolled {
		o, err = stopUncontrolled(ctx, m, reason)
	} else {
		request := agent.StopRequest{ID: m.name, Reason: reason, Region: &m.procs.region}
		o, err = agent.Stop.CallUrgent(ctx, actor.RefOf[agent.Agent](m.owner).Via(m.procs.net.proc), request)
		if isUnreachable(err) { // the mesh was over long ago
			if ended, _ := haveEnded(ctx, m.procs); ended {
				return nil
			}
			o, err = stopUncontrolled(ctx, m, reason)
		}
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", m.name, err)
	}
	left := rankStatuses(o, m.procs.desc, m.procs.region, isAlive)
	if len(left) > 0 {
		return &StopError{Mesh: m.name, Ranks: m.Extent().NumRanks(), Remaining: left}
	}
	return nil
}

// stopUncontrolled stops actors without a controller.
func stopUncontrolled(ctx context.Context, m actorMesh, reason string) (agent.Overlay, error) {
	return controller.StopActors(ctx, agentsOf(m.procs), agent.StopRequest{ID: m.name, Reason: reason})
}

// OwnerError refuses an operation that only the owner of a mesh may do.
type OwnerError struct {
	Owner subjects.ActorID // the controller of the mesh; zero: unknown to the handle
}

func (e *OwnerError) Error() string {
	if !e.Owner.IsValid() {
		return "this handle was found, not spawned: want the handle of the owner"
	}
	return fmt.Sprintf("%s owns the mesh: want its handle", e.Owner)
}

// Watch yields the end of every actor of the region, earlier ends included, until ctx ends or the
// loop is left (MESH-6). Restarted actors have not ended: Changes reports them.
func (m actorMesh) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return ends(m.Changes(ctx))
}

// Changes yields the changes of the region's actors: their ends, earlier ones included, and the
// progress of restarts.
func (m actorMesh) Changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	m.procs = resolved(m.procs)
	return watchedActors(m).changes(ctx)
}

func watchedActors(m actorMesh) watchTarget {
	w := watchedProcs(m.procs)
	// the controller of the procs stays: their ends end the actors
	w.controllers = append(w.controllers, m.owner)
	w.actors = m.name
	w.find = func(ctx context.Context) (source, error) { return findSource(ctx, m) }
	if m.owner.IsValid() {
		w.find = from(controllerOf(m, m.owner))
	}
	w.leftover = &actorSource{procs: wholeOf(m.procs), actors: m.name}
	return w
}
