package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// bareWorld is a world that no host knows as a mesh, for none of its procs is there, and who owns it. It is looked for
// when no mesh has the name; false: that is all there is to say.
func bareWorld(ctx context.Context, net *mesh.Net, name string, missing error) (w worlds.WorldState, system string, ok bool) {
	if _, is := errors.AsType[*mesh.NotFoundError](missing); !is {
		return w, "", false
	}
	ref, err := worlds.Find(ctx, net.Proc())
	if err != nil {
		return w, "", false
	}
	now, err := worlds.Snap.Call(ctx, ref, worlds.Filter{})
	if err != nil {
		return w, "", false
	}
	for _, w := range now.Worlds {
		if w.Name == name || w.Mesh == name {
			return w, ref.ID().String(), true
		}
	}
	return w, "", false
}

// orBareWorld says of a name that no mesh has when it is that of a world.
func orBareWorld(ctx context.Context, net *mesh.Net, name string, missing error) error {
	w, _, ok := bareWorld(ctx, net, name, missing)
	if !ok {
		return missing
	}
	return cli.WithCode(cli.ExitNotFound, bare(w))
}

// bare says what a world lacks.
func bare(w worlds.WorldState) error {
	if w.Shape == nil {
		return fmt.Errorf("world %s is not declared, so that it has no procs: client apply -f FILE declares it", w.Name)
	}
	return fmt.Errorf("world %s has no procs so far: %s", w.Name, w.Reason)
}

// bareView is what the system controller says of such a world.
func bareView(net *mesh.Net, w worlds.WorldState, system string, there []subjects.HostID) (meshView, error) {
	if w.Shape == nil {
		return meshView{}, cli.WithCode(cli.ExitNotFound, bare(w))
	}
	id, err := subjects.ParseMeshID(w.Mesh)
	if err != nil {
		return meshView{}, err
	}
	ranks := w.Shape.NumRanks()
	desc := agent.Mesh{
		ID: id, Extent: *w.Shape, PerHost: w.PerHost, World: &agent.Share{World: w.Name, Count: ranks},
		Hosts: make([]subjects.HostID, (ranks+w.PerHost-1)/w.PerHost),
	}
	for _, h := range w.Hosts {
		if h.Rank < len(desc.Hosts) {
			desc.Hosts[h.Rank] = h.ID
		}
	}
	all := witnesses{net: net, desc: desc, there: there, system: system, world: &w}
	return all.view(), nil
}
