package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

// linkRecord is a proc's links with one process. Its JSON names are stable.
type linkRecord struct {
	Mesh  string `json:"mesh"`
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	actor.Peer
}

// linkRecords asks the live procs of a target, or of all meshes, for links and dropped input. The
// error names silent procs and comes with the other records.
func linkRecords(ctx context.Context, net *mesh.Net, t *target) (records []linkRecord, unused []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var only *resolvedTarget
	var inv mesh.Inventory
	var missing error
	if t != nil {
		var procs mesh.ProcMesh
		inv, procs, err = net.InventoryFor(ctx, t.name)
		if err != nil {
			return nil, nil, orEmptyWorld(ctx, net, t.name, err)
		}
		p, err := t.resolveIn(procs)
		if err != nil {
			return nil, nil, err
		}
		only, missing = &p, p.missingHosts(inv, *t)
	} else {
		inv, err = net.Inventory(ctx)
		if err != nil {
			return nil, nil, err
		}
		missing = inv.Err()
	}
	var asked []mesh.MeshState
	for _, m := range inv.Meshes {
		if only != nil {
			m.States = slices.DeleteFunc(m.States, func(s agent.State) bool {
				return m.Procs.ID() != only.procs.ID() || !only.region.Contains(s.Rank)
			})
		}
		m.States = slices.DeleteFunc(m.States, func(s agent.State) bool {
			return s.Status.Phase.Terminal() || s.Status.Phase == agent.Unknown // on a silent host
		})
		asked = append(asked, m)
	}
	records, unused, err = inspectLinks(ctx, net, asked)
	return records, unused, errors.Join(err, missing)
}

// inspectLinks asks each rank of meshes.
func inspectLinks(ctx context.Context, net *mesh.Net, meshes []mesh.MeshState) (records []linkRecord, unused []string, err error) {
	type answer struct {
		links  []linkRecord
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
				if what := droppedText(info.Stats); what != "" {
					got.unused = fmt.Sprintf("rank %d of %s: %s", s.Rank, desc.ID, what)
				}
				for _, p := range info.Peers {
					got.links = append(got.links, linkRecord{desc.ID.String(), s.Rank, formatPoint(desc.Extent, s.Rank), p})
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
		{s.PassedOver, "invalid replies"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) showLinks(records []linkRecord) error {
	columns := []string{"rank", "point", "peer", "sent", "acked", "again", "received", "twice", "gaps", "credit", "rtt", "stalled"}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return showRecords(a, records, columns, func(r linkRecord) []string {
		credit, rtt := "-", "-" // of an unopened link
		if r.Sent > 0 {
			credit = strconv.FormatInt(r.Credit>>10, 10) + " KiB"
			rtt = r.RTT.Round(10 * time.Microsecond).String()
		}
		return []string{
			strconv.Itoa(r.Rank), r.Point, r.Process.String(), number(r.Sent), number(r.Acked), number(r.Retransmitted),
			number(r.Received), number(r.Duplicates), number(r.Gaps), credit, rtt, a.linkState(r.Peer),
		}
	})
}

// linkState describes the problem of a link.
func (a *app) linkState(p actor.Peer) string {
	if p.DeadReason != "" {
		return "dead: " + shorten(p.DeadReason, 60)
	}
	if p.StallReason != "" {
		return a.paint(yellow, p.StallReason)
	}
	return "-"
}
