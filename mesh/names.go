package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/subjects"
)

// releaseWithin bounds the release of a name: one that is not released expires.
const releaseWithin = 2 * time.Second

// TakeName reserves a name with the system controller, if no live mesh and no world has it, until release is called
// or proc.spawn-idle has passed. By then hosts are to know the mesh that has the name. Of several programs that take a
// name at one moment one succeeds; the others get a *NameTakenError (MESH-17). Where no system controller acts, the
// hosts are asked, and nothing is reserved: two that take a name at one moment may both succeed.
func (n *Net) TakeName(ctx context.Context, name string) (release func(), err error) {
	fail := func(err error) (func(), error) {
		if taken, is := errors.AsType[*NameTakenError](err); is {
			return nil, taken // it says it all
		}
		return nil, fmt.Errorf("cannot take the name %s: %w", name, err)
	}
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := within(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	system, err := worlds.Find(ctx, n.proc)
	if errors.Is(err, worlds.ErrNoSystem) {
		if err := n.nobodyHas(ctx, name); err != nil {
			return fail(err)
		}
		return func() {}, nil
	}
	if err != nil {
		return fail(err)
	}
	asked := worlds.Reserving{ID: id, By: n.proc.ID()}
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
		_, _ = worlds.Release.Call(ctx, system, asked) // it expires otherwise
	}
	if _, err := worlds.Reserve.Call(ctx, system, asked); err != nil {
		if _, refused := errors.AsType[*NameTakenError](err); !refused {
			release() // the answer may have been lost
		}
		return fail(err)
	}
	return release, nil
}

// nobodyHas is a *NameTakenError when hosts have a mesh of the name that lives.
func (n *Net) nobodyHas(ctx context.Context, name string) error {
	living, err := worlds.Living(ctx, n.proc, n.quiet)
	for _, m := range living {
		if m.Name == name {
			return &m
		}
	}
	return err
}
