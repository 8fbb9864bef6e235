package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
)

// actorRecord is one actor of one rank. Its JSON names are stable.
type actorRecord struct {
	Rank      int      `json:"rank"`
	Point     string   `json:"point"`
	Actor     string   `json:"actor"`
	Type      string   `json:"type,omitempty"`
	Status    string   `json:"status"`
	Reason    string   `json:"reason,omitempty"`
	Queued    int      `json:"queued"`
	Handled   uint64   `json:"handled"`
	Current   string   `json:"current,omitempty"` // endpoint of the running handler
	Endpoints []string `json:"endpoints,omitempty"`
}

func (a *app) actorsCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "actors MESH[region]",
		Short: "List the actors in the procs of a mesh",
		Long: `List what runs in each proc of a mesh, or of a region of it: mailbox, messages handled,
and what the actors can be asked. With --all, also what castnet itself runs there.

JSON: rank, point, actor, type, status, reason, queued, handled, current, endpoints.`,
		Example:           "  castnet actors demo\n  castnet actors 'demo[host=0]' --output json",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(liveNames),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also the procs' own agents")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			p, err := t.resolve(ctx, net)
			if err != nil {
				return err
			}
			records, err := actorRecords(ctx, p, all)
			return errors.Join(a.showActors(records), err)
		})
	}
	return c
}

// actorRecords asks every proc of the target. The error names unanswered procs and comes with the
// other records.
func actorRecords(ctx context.Context, p resolvedTarget, all bool) ([]actorRecord, error) {
	found, err := p.procs.Actors(ctx)
	if err != nil {
		if _, partial := errors.AsType[*cast.CoverageError](err); !partial {
			return nil, err
		}
	}
	var out []actorRecord
	for view, states := range found.Values() {
		for _, s := range states {
			if s.Actor == nil || !s.Actor.Managed && !all {
				continue
			}
			out = append(out, actorRecord{
				Rank: p.rank(view), Point: p.point(view), Actor: s.ID, Type: s.Actor.Type,
				Status: s.Status.Phase.String(), Reason: s.Status.Reason, Queued: s.Actor.Queued,
				Handled: s.Actor.Handled, Current: s.Actor.Current, Endpoints: s.Actor.Endpoints,
			})
		}
	}
	return out, err
}

func (a *app) showActors(records []actorRecord) error {
	columns := []string{"rank", "point", "actor", "type", "status", "queued", "handled", "reason"}
	err := showRecords(a, records, columns, func(r actorRecord) []string {
		return []string{
			strconv.Itoa(r.Rank), r.Point, r.Actor, orDash(r.Type), a.paintStatus(r.Status),
			strconv.Itoa(r.Queued), strconv.FormatUint(r.Handled, 10), orDash(shorten(r.Reason, 60)),
		}
	})
	if err != nil || a.output != asTable {
		return err
	}
	endpoints := map[string][]string{}
	for _, r := range records {
		endpoints[r.Type] = r.Endpoints
	}
	for _, t := range slices.Sorted(maps.Keys(endpoints)) {
		if len(endpoints[t]) > 0 {
			a.notef("a %s can be asked: %s", t, strings.Join(endpoints[t], "  "))
		}
	}
	return nil
}
