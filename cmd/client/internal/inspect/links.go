package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
)

// Link is a proc's links with one process. Its JSON names are stable.
type Link struct {
	Mesh  string `json:"mesh"`
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	actor.Peer
}

// Links asks each rank of meshes.
func Links(ctx context.Context, net *mesh.Net, meshes []mesh.MeshState) (records []Link, unused []string, err error) {
	type answer struct {
		links  []Link
		unused string
		err    error
	}
	var all []*answer
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for _, m := range meshes {
		desc := m.Procs.Describe()
		for _, s := range m.States {
			got := &answer{}
			all = append(all, got)
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				info, err := net.Proc().InspectProc(ctx, desc.ProcID(s.Rank, s.Gen))
				if err != nil {
					got.err = fmt.Errorf("rank %d of %s: %w", s.Rank, desc.ID, err)
				}
				if what := DroppedText(info.Stats); what != "" {
					got.unused = fmt.Sprintf("rank %d of %s: %s", s.Rank, desc.ID, what)
				}
				for _, p := range info.Peers {
					got.links = append(got.links, Link{desc.ID.String(), s.Rank, Point(desc.Extent, s.Rank), p})
				}
			})
		}
	}
	wg.Wait()
	var errs []error
	for _, got := range all {
		records = append(records, got.links...)
		errs = append(errs, got.err)
		if got.unused != "" {
			unused = append(unused, got.unused)
		}
	}
	return records, unused, errors.Join(errs...)
}

// DroppedText describes a proc's unusable input, or returns "".
func DroppedText(s *actor.Stats) string {
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
		{s.PassedOver, "invalid replies"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}
