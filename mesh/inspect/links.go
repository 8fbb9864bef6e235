package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

// Link is a proc's links with one process. Its JSON names are stable.
type Link struct {
	Mesh  string `json:"mesh"`
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	actor.Peer
}

// Links asks each rank of meshes for its links. dropped names the ranks that received unusable
// input. The error names procs without an answer and comes with the links of the others.
func Links(ctx context.Context, conn *mesh.Net, meshes []mesh.MeshState) (
	records []Link, dropped []string, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	type answer struct {
		mesh   agent.Mesh
		state  agent.State
		links  []Link
		unused string
		err    error
	}
	var all []*answer
	for _, m := range meshes {
		for _, s := range m.States {
			all = append(all, &answer{mesh: m.Procs.Describe(), state: s})
		}
	}
	askEach(all, func(_ int, got *answer) {
		name := fmt.Sprintf("rank %d of %s", got.state.Rank, got.mesh.ID)
		info, err := conn.Proc().InspectProc(ctx, got.mesh.ProcID(got.state.Rank, got.state.Gen))
		if err != nil && !actor.IsGone(err) { // it has ended since its host was asked
			got.err = fmt.Errorf("%s: %w", name, err)
		}
		if what := droppedText(info.Stats); what != "" {
			got.unused = name + ": " + what
		}
		for _, p := range info.Peers {
			got.links = append(got.links, Link{
				got.mesh.ID.String(), got.state.Rank, Point(got.mesh.Extent, got.state.Rank), p,
			})
		}
	})
	var errs []error
	for _, got := range all {
		records = append(records, got.links...)
		errs = append(errs, got.err)
		if got.unused != "" {
			dropped = append(dropped, got.unused)
		}
	}
	return records, dropped, errors.Join(errs...)
}

// droppedText describes a proc's unusable input, or returns "".
func droppedText(s *actor.Stats) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, c := range []struct {
		n    uint64
		what string
	}{
		{s.Malformed, "malformed"}, {s.Fenced, "of the dead"}, {s.Late, "late answers"},
		{s.Undeliverable, "for unknown mailboxes"}, {s.Unknown, "with unknown fields"},
		{s.IgnoredReplies, "invalid replies"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}
