package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// FindEmptyWorld finds a world without procs, unknown to hosts as a mesh, and its owner. It is the
// last lookup for a name. false: no such world.
func FindEmptyWorld(
	ctx context.Context, conn *mesh.Net, name string, missing error,
) (w system.WorldState, ctl string, ok bool) {
	if _, is := errors.AsType[*mesh.NotFoundError](missing); !is {
		return w, "", false
	}
	ref, err := system.Find(ctx, conn.Proc())
	if err != nil {
		return w, "", false
	}
	now, err := system.GetSnapshot.Call(ctx, ref, system.Filter{})
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

// EmptyWorldError reports that a world has no procs, so that no host knows it as a mesh.
type EmptyWorldError struct{ World system.WorldState }

func (e *EmptyWorldError) Error() string {
	if e.World.Shape == nil {
		return fmt.Sprintf(
			"world %s is not declared and has no procs: castnet apply -f FILE declares it", e.World.Name,
		)
	}
	return fmt.Sprintf("world %s has no procs so far: %s", e.World.Name, e.World.Reason)
}

// emptyWorldView returns the system controller's view of such a world.
func emptyWorldView(conn *mesh.Net, w system.WorldState, ctl string, there []subjects.HostID) (View, error) {
	if w.Shape == nil {
		return View{}, &EmptyWorldError{w}
	}
	id, err := subjects.ParseMeshID(w.Mesh)
	if err != nil {
		return View{}, err
	}
	ranks := w.Shape.NumRanks()
	desc := agent.Mesh{
		ID: id, Extent: *w.Shape, PerHost: w.PerHost, World: &agent.WorldShare{World: w.Name, Count: ranks},
		Hosts: make([]subjects.HostID, (ranks+w.PerHost-1)/w.PerHost),
	}
	for _, h := range w.Hosts {
		if h.Rank < len(desc.Hosts) {
			desc.Hosts[h.Rank] = h.ID
		}
	}
	all := inspection{net: conn, desc: desc, liveHosts: there, system: ctl, world: &w}
	return all.view(), nil
}
