package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ActorMesh is a region of an actor mesh: one actor of Go type A in every proc of a region.
type ActorMesh[A any] struct {
	procs ProcMesh
	name  string           // the actors' shared name
	owner subjects.ActorID // its controller; zero: made by somebody else
}

// Spawn starts an actor of a type in every proc of a region, under one fresh name that starts with
// label. A constructor that fails anywhere fails the spawn and names the rank (MESH-3, MESH-4).
func Spawn[A, P any](ctx context.Context, procs ProcMesh, typ actor.Type[A, P], label string, params P) (ActorMesh[A], error) {
	fail := func(err error) (ActorMesh[A], error) {
		return ActorMesh[A]{}, fmt.Errorf("spawn actors %q: %w", label, err)
	}
	if err := procs.Err(); err != nil {
		return fail(err)
	}
	if err := typ.Err(); err != nil {
		return fail(err)
	}
	name, err := subjects.NewName(label)
	if err != nil {
		return fail(err)
	}
	raw, err := wire.Marshal(params)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(procs.net.config))
	defer cancel()
	spec := controller.Spec{
		Procs: procs.desc, Region: procs.region, Actors: &agent.ActorSpec{Name: name, Type: typ.Name(), Params: raw},
	}
	owner, err := procs.net.own(ctx, spec)
	if err != nil {
		return fail(err)
	}
	if err := start(ctx, owner, name, procs.desc, procs.region); err != nil {
		return ActorMesh[A]{}, errors.Join(err, abandon(ctx, procs.net, owner, name))
	}
	return ActorMesh[A]{procs: procs, name: name, owner: owner.ID()}, nil
}

// Err is the error a bad handle carries.
func (m ActorMesh[A]) Err() error { return m.procs.Err() }

// Name is the name the actors share within their procs.
func (m ActorMesh[A]) Name() string { return m.name }

// Procs is the region of the proc mesh the actors live in.
func (m ActorMesh[A]) Procs() ProcMesh { return m.procs }

// Extent is the shape of the region.
func (m ActorMesh[A]) Extent() shape.Extent { return m.procs.Extent() }

// Target says whom a cast reaches; it makes the mesh a cast.Mesh.
func (m ActorMesh[A]) Target() (cast.Target, error) {
	if err := m.Err(); err != nil {
		return cast.Target{}, err
	}
	return cast.Target{Via: m.procs.net.proc, Placement: m.procs.placement(), Actor: m.name, Region: m.procs.region}, nil
}

// Ref addresses one rank of the region.
func (m ActorMesh[A]) Ref(rank int) actor.Ref[A] {
	if err := m.Err(); err != nil {
		return actor.BadRef[A](err)
	}
	base, err := m.procs.region.BaseRank(rank)
	if err != nil {
		return actor.BadRef[A](err)
	}
	return actor.RefOf[A](m.procs.placement().Proc(base).Actor(m.name)).Via(m.procs.net.proc)
}

// At addresses the actor at one point, given as pairs of label and index: At("host", 0, "gpu", 3).
// Dimensions of size 1 may be left out. Bad pairs are an error of the ref.
func (m ActorMesh[A]) At(pairs ...any) actor.Ref[A] {
	r := m.procs.region
	if err := m.Err(); err != nil {
		return actor.BadRef[A](err)
	}
	if len(pairs)%2 != 0 {
		return actor.BadRef[A](fmt.Errorf("at %v: want pairs of label and index", pairs))
	}
	for i := 0; i < len(pairs); i += 2 {
		label, ok := pairs[i].(string)
		index, ok2 := pairs[i+1].(int)
		if !ok || !ok2 {
			return actor.BadRef[A](fmt.Errorf("at %v: want a label (string) and an index (int), got %T and %T", pairs, pairs[i], pairs[i+1]))
		}
		var err error
		if r, err = r.Index(label, index); err != nil {
			return actor.BadRef[A](err)
		}
	}
	if n := r.NumRanks(); n != 1 {
		return actor.BadRef[A](fmt.Errorf("at %v: want an index for every dimension of %s: %d actors match", pairs, m.Extent(), n))
	}
	base, err := r.BaseRank(0)
	if err != nil {
		return actor.BadRef[A](err)
	}
	return actor.RefOf[A](m.procs.placement().Proc(base).Actor(m.name)).Via(m.procs.net.proc)
}

// Slice keeps the indices begin to end-1 along a dimension.
func (m ActorMesh[A]) Slice(label string, begin, end int) ActorMesh[A] {
	m.procs = m.procs.Slice(label, begin, end)
	return m
}

// Select slices as people write it, such as `host=0:2,gpu=3`.
func (m ActorMesh[A]) Select(text string) ActorMesh[A] {
	m.procs = m.procs.Select(text)
	return m
}

// Stop stops the actors, each after the messages it has accepted, and returns once all have. Only
// the program that spawned the mesh can.
func (m ActorMesh[A]) Stop(ctx context.Context) error {
	switch {
	case m.Err() != nil:
		return m.Err()
	case !m.owner.IsValid():
		return fmt.Errorf("stop %s: this handle was found, not spawned: its owner stops it", m.name)
	}
	ctx, cancel := within(ctx, config.MeshStopDeadline.Get(m.procs.net.config))
	defer cancel()
	o, err := agent.Stop.Call(ctx, m.controller(), agent.Stopping{ID: m.name, Reason: "stopped by its user"})
	if err != nil {
		return fmt.Errorf("stop %s: %w", m.name, err)
	}
	left := statuses(o, m.procs.desc, m.procs.region, func(s agent.Status) bool { return !s.Phase.Terminal() })
	if len(left) > 0 {
		return &StopError{Mesh: m.name, Ranks: m.Extent().NumRanks(), Left: left}
	}
	return nil
}

func (m ActorMesh[A]) controller() actor.Ref[agent.Agent] {
	return actor.RefOf[agent.Agent](m.owner).Via(m.procs.net.proc)
}

// Watch yields the end of every actor of the mesh, those before it included, until ctx ends or the
// loop is left (MESH-6).
func (m ActorMesh[A]) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	bad := m.Err()
	if bad == nil && !m.owner.IsValid() {
		bad = fmt.Errorf("watch %s: this handle was found, not spawned: its owner is told", m.name)
	}
	return watch(ctx, m.procs.net, m.controller, bad)
}
