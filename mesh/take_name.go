package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// releaseTimeout bounds the release of a name; a reservation expires anyway.
const releaseTimeout = 2 * time.Second

// TakeName reserves a name with the system controller, if no live mesh and no world has it, until
// release is called or proc.spawn-progress-timeout has passed. By then hosts must know the mesh of
// that name. Of concurrent takers one succeeds; the others get a *NameTakenError (MESH-15). Without
// a system controller, the hosts are asked and nothing is reserved: concurrent takers may both
// succeed.
func (n *Net) TakeName(ctx context.Context, name string) (release func(), err error) {
	fail := func(err error) (func(), error) {
		if taken, is := errors.AsType[*NameTakenError](err); is {
			return nil, taken
		}
		return nil, fmt.Errorf("cannot take the name %s: %w", name, err)
	}
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := withTimeout(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	asked := system.NameReservation{ID: id, By: n.proc.ID()}
	reserve := func(ctl actor.Ref[*system.Controller]) error {
		_, err := system.Reserve.Call(ctx, ctl, asked)
		return err
	}
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = askSystem(ctx, n.proc, func(ctl actor.Ref[*system.Controller]) error { // it expires otherwise
			_, err := system.Release.Call(ctx, ctl, asked)
			return err
		})
	}
	err = askSystem(ctx, n.proc, reserve)
	if errors.Is(err, system.ErrNoController) {
		if err := n.checkNameFree(ctx, name); err != nil {
			return fail(err)
		}
		return func() {}, nil
	}
	if err != nil {
		if _, refused := errors.AsType[*NameTakenError](err); !refused {
			release() // the reply may have been lost after the reservation
		}
		return fail(err)
	}
	return release, nil
}

// checkNameFree returns a *NameTakenError if hosts have a live mesh of the name.
func (n *Net) checkNameFree(ctx context.Context, name string) error {
	inUse, err := system.NamesInUse(ctx, n.proc, n.quiet)
	for _, m := range inUse {
		if m.Name == name {
			return &m
		}
	}
	return err
}
