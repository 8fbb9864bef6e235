package candidates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

// Detached returns the labels of adoptable meshes.
func Detached(ctx context.Context, conn *mesh.Net, _ []string) ([]string, error) {
	all, err := conn.Detached(ctx)
	var names []string
	for _, d := range all {
		names = append(names, d.Mesh.Label())
	}
	return names, err
}

// Meshes returns the labels of live meshes, worlds with procs included.
func Meshes(ctx context.Context, conn *mesh.Net, _ []string) ([]string, error) {
	meshes, err := conn.Meshes(ctx)
	var names []string
	for _, m := range meshes {
		if m.Alive() {
			names = append(names, m.Procs.ID().Label())
		}
	}
	return names, err
}

// MeshesAndWorlds returns the labels of live meshes and of worlds without procs.
func MeshesAndWorlds(ctx context.Context, conn *mesh.Net, _ []string) (names []string, _ error) {
	for _, l := range []app.Lookup{Meshes, Worlds} {
		some, _ := l(ctx, conn, nil) // there may be no host or system controller
		names = append(names, some...)
	}
	return names, nil
}

// Ranks returns the ranks of worlds and meshes as name/rank.
func Ranks(ctx context.Context, conn *mesh.Net, _ []string) (names []string, _ error) {
	meshes, err := conn.Meshes(ctx)
	for _, m := range meshes {
		for _, s := range m.States {
			if !s.Status.Phase.Terminal() {
				names = append(names, fmt.Sprintf("%s/%d", m.Procs.ID().Label(), s.Rank))
			}
		}
	}
	return names, err
}

// Actors returns the actor labels of the mesh in the first argument.
func Actors(ctx context.Context, conn *mesh.Net, args []string) ([]string, error) {
	records, err := completionActors(ctx, conn, args)
	var names []string
	for _, r := range records {
		names = append(names, text.Label(r.Actor))
	}
	return names, err
}

// Endpoints returns the endpoints of the actor in the second argument.
func Endpoints(ctx context.Context, conn *mesh.Net, args []string) ([]string, error) {
	records, err := completionActors(ctx, conn, args)
	var names []string
	for _, r := range records {
		if r.Actor != args[1] && text.Label(r.Actor) != args[1] {
			continue
		}
		for _, e := range r.Endpoints {
			name, _, _ := strings.Cut(e, "(")
			names = append(names, name)
		}
	}
	return names, err
}

func completionActors(ctx context.Context, conn *mesh.Net, args []string) ([]inspect.Actor, error) {
	t, err := target.Parse(args[0])
	if err != nil {
		return nil, err
	}
	p, err := t.Resolve(ctx, conn)
	if err != nil {
		return nil, err
	}
	return inspect.Actors(ctx, p.Procs, false)
}

// Hosts returns the labels of live hosts.
func Hosts(ctx context.Context, conn *mesh.Net, taken []string) ([]string, error) {
	hosts, err := conn.AllHosts(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, h := range hosts.Infos() {
		if !slices.Contains(taken, h.Label) {
			names = append(names, h.Label)
		}
	}
	return names, nil
}

// HostLabels returns the key-value labels of live hosts.
func HostLabels(ctx context.Context, conn *mesh.Net, _ []string) ([]string, error) {
	hosts, err := conn.AllHosts(ctx)
	if err != nil {
		return nil, err
	}
	return target.AllLabels(hosts.Infos()), nil
}

// Worlds returns the names of the system's worlds, for completion.
func Worlds(ctx context.Context, conn *mesh.Net, _ []string) ([]string, error) {
	ref, err := target.FindSystem(ctx, conn)
	if err != nil {
		return nil, err
	}
	now, err := system.GetSnapshot.Call(ctx, ref, system.Filter{})
	var names []string
	for _, w := range now.Worlds {
		names = append(names, w.Name)
	}
	return names, err
}
