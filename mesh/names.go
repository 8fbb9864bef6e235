package mesh

import (
	"context"
	"slices"

	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
)

// TakeName makes sure that no live mesh and no world has a name, and that whoever else takes it fails until release is
// called, by when the name is to be that of a mesh that others find. Of several that take it at one moment one succeeds.
// The others, and who comes later, get a *NameTakenError (MESH-17).
func (n *Net) TakeName(ctx context.Context, name string) (release func(), err error) {
	return n.takeName(ctx, name, func(ctx context.Context) error {
		if err := n.noMesh(ctx, name, "mesh", "world"); err != nil {
			return err
		}
		return worlds.Holder(ctx, n.proc, name) // its hosts may be silent, or not there yet
	})
}

// TakeWorldName is TakeName for who declares a world (worlds.Declaration.Taken), which hosts may have joined, or which may
// be there already.
func (n *Net) TakeWorldName(ctx context.Context, name string) (release func(), err error) {
	return n.takeName(ctx, name, func(ctx context.Context) error { return n.noMesh(ctx, name, "mesh") })
}

func (n *Net) takeName(ctx context.Context, name string, free func(context.Context) error) (release func(), err error) {
	return worlds.TakeName(ctx, n.proc, name, func(ctx context.Context) error {
		ctx, cancel := within(ctx, config.AttachTimeout.Get(n.config))
		defer cancel()
		return free(ctx)
	})
}

// noMesh is a *NameTakenError when hosts have a mesh of a name and of some kinds that lives.
func (n *Net) noMesh(ctx context.Context, name string, kinds ...string) error {
	all, err := worlds.Living(ctx, n.proc, n.quiet)
	for _, m := range all {
		if m.Name == name && slices.Contains(kinds, m.Kind) {
			return &m
		}
	}
	return err
}
