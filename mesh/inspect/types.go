package inspect

import (
	"context"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

// ActorType is an actor type that the procs of a mesh know. Its JSON names are stable.
type ActorType struct {
	Type      string   `json:"type"`
	Actors    []string `json:"actors"` // their labels
	Running   int      `json:"running"`
	Endpoints []string `json:"endpoints"` // none without an actor
}

// Types lists the actor types of a region by name: those of its actors, and those that its first
// host knows of the program. The error names procs without an answer and comes with the types of
// the others.
func Types(ctx context.Context, conn *mesh.Net, procs mesh.ProcMesh) ([]ActorType, error) {
	actors, err := Actors(ctx, procs, false)
	if actors == nil && err != nil {
		return nil, err
	}
	byName := map[string]*ActorType{}
	for _, name := range programTypes(ctx, conn, procs) {
		byName[name] = &ActorType{Type: name, Actors: []string{}, Endpoints: []string{}}
	}
	for _, a := range actors {
		t := byName[a.Type]
		if t == nil {
			t = &ActorType{Type: a.Type, Actors: []string{}, Endpoints: []string{}}
			byName[a.Type] = t
		}
		if label := text.Label(a.Actor); !slices.Contains(t.Actors, label) {
			t.Actors = append(t.Actors, label)
		}
		if a.Status == agent.Running.String() {
			t.Running++
		}
		if len(a.Endpoints) > 0 {
			t.Endpoints = a.Endpoints
		}
	}
	types := []ActorType{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		types = append(types, *byName[name])
	}
	return types, err
}

// programTypes returns the types that the procs of a mesh reported to their host; none: unknown.
func programTypes(ctx context.Context, conn *mesh.Net, procs mesh.ProcMesh) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	host, err := procs.Host(0)
	if err != nil || !host.IsValid() {
		return nil
	}
	known, err := agent.Types.Call(ctx, agent.Of(host.Proc()).Via(conn.Proc()), procs.ID().String())
	if err != nil {
		return nil // its actors say what they are
	}
	return known
}
