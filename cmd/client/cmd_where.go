package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

func (a *app) whereCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "where MESH/RANK",
		Short: "Say where a rank of a world, or of a mesh, is",
		Long: `Say where a rank of a world is, or of any mesh that lives: its host, its newest incarnation and how that is.
The ID of any proc that had the rank does, too.

JSON: world (or the mesh), proc, host, health, reason.`,
		Example:           "  client where train/3\n  client where demo-7kd93x0b5m2qa/3.0",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(rankNames),
		RunE: func(c *cobra.Command, args []string) error {
			name, rank, err := parseWhere(args[0])
			if err != nil {
				return err
			}
			return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error {
				w, err := where(ctx, net, args[0], name, rank)
				if err != nil {
					return err
				}
				return show(a, []worlds.Whereabouts{w}, []string{"mesh", "proc", "host", "health", "reason"}, func(w worlds.Whereabouts) []string {
					return []string{w.World, w.Proc.String(), orDash(w.Host), string(w.Health), orDash(w.Reason)}
				})
			})
		},
	}
}

// where asks the system controller for a rank, and, of a mesh that is no world, the hosts.
func where(ctx context.Context, net *mesh.Net, what, name string, rank int) (w worlds.Whereabouts, err error) {
	ref, err := worlds.Find(ctx, net.Proc())
	if err == nil {
		if w, err = worlds.Where.Call(ctx, ref, what); err == nil {
			return w, nil
		}
	}
	p, missing := net.Lookup(ctx, name)
	switch _, none := errors.AsType[*mesh.NotFoundError](missing); {
	case none && err != nil && !errors.Is(err, worlds.ErrNoSystem):
		return w, cli.WithCode(cli.ExitNotFound, fmt.Errorf("%w; %w", err, missing)) // what the system controller says of it, too
	case missing != nil:
		return w, missing
	}
	return whereIn(ctx, net, p, rank)
}

// parseWhere reads name/rank, or the ID of a proc, whose mesh is meant.
func parseWhere(what string) (name string, rank int, err error) {
	name, text, _ := strings.Cut(what, "/")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil && subjects.CheckName("mesh", name) == nil {
		return name, int(n), nil
	}
	id, err := subjects.ParseProcID(what)
	if err != nil {
		return "", 0, cli.Usagef("where %q: want MESH/RANK, or the ID of a proc", what)
	}
	return id.Mesh.String(), int(id.Rank), nil
}

// whereIn is where a rank of a mesh is, as its hosts say: the newest incarnation.
func whereIn(ctx context.Context, net *mesh.Net, p mesh.ProcMesh, rank int) (w worlds.Whereabouts, err error) {
	all, err := net.Meshes(ctx)
	if err != nil {
		return w, err
	}
	var found *agent.State
	for _, m := range all {
		for _, s := range m.States {
			if m.Procs.ID() == p.ID() && s.Rank == rank && (found == nil || s.Gen > found.Gen) {
				found = &s
			}
		}
	}
	desc := p.Describe()
	switch n := desc.Extent.NumRanks(); {
	case rank >= n:
		return w, cli.WithCode(cli.ExitNotFound, fmt.Errorf("mesh %s has no rank %d: it has %s", desc.ID, rank, count(n, "rank")))
	case found == nil: // of a world
		return w, cli.WithCode(cli.ExitNotFound, fmt.Errorf("rank %d of mesh %s is on no host: client explain %s says why", rank, desc.ID, desc.ID.Label()))
	}
	w = worlds.Whereabouts{World: desc.ID.Label(), Proc: desc.Proc(rank, found.Gen), Health: worlds.Alive, Reason: found.Status.Reason}
	if found.Proc != nil {
		w.Host = found.Proc.Host
	}
	if found.Status.Phase.Terminal() {
		w.Health = worlds.Ended
	}
	return w, nil
}
