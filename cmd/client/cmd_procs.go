package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// procRecord is a rank of a proc mesh. Its JSON names are stable.
type procRecord struct {
	Mesh     string     `json:"mesh"`
	Rank     int        `json:"rank"`
	Point    string     `json:"point"`
	Host     string     `json:"host"`
	PID      int        `json:"pid,omitempty"`
	Status   string     `json:"status"`
	Reason   string     `json:"reason,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Signal   int        `json:"signal,omitempty"`
	Adopted  bool       `json:"adopted,omitempty"` // launched by an earlier hostd
}

func (a *app) procsCommand() *cobra.Command {
	var all, links bool
	c := &cobra.Command{
		Use:   "procs [MESH[region]]",
		Short: "List the procs of one mesh, or of all",
		Long: `List procs as their hosts see them: those of one mesh or of a region of it, or of
every mesh that has a proc alive. With --all, also of meshes that have ended. The ranks on a host
that does not answer are unknown, unless the owner of the mesh knows more; then the exit code is 4.
The reason of a proc launched by an earlier hostd says so.

JSON: mesh, rank, point, host, pid, status, reason, started, exit_code, signal, adopted.

With --links, show the links of those procs instead: packets, retransmissions, duplicates, gaps,
credit, and the reason of a stall. Dropped input, such as malformed or late messages, is counted
below.

JSON: mesh, rank, point, process, sent, acked, flying, waiting, credit, packets, retransmitted, rtt,
received, duplicates, gaps, stalled, answers, dead.`,
		Example:           "  castnet procs\n  castnet procs 'demo[host=0]'\n  castnet procs --all --output ndjson\n  castnet procs demo --links",
		Args:              wantArgs(0, 1),
		ValidArgsFunction: a.complete(liveNames),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also meshes that have ended")
	c.Flags().BoolVar(&links, "links", false, "show the links of the procs with others")
	c.MarkFlagsMutuallyExclusive("all", "links")
	c.RunE = func(c *cobra.Command, args []string) error {
		var t *target
		if len(args) == 1 {
			parsed, err := parseTarget(args[0])
			if err != nil {
				return err
			}
			t = &parsed
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			if links {
				records, unused, err := linkRecords(ctx, net, t)
				err = errors.Join(a.showLinks(records), err)
				for _, of := range unused {
					a.notef("dropped: %s", of)
				}
				return err
			}
			records, missing, err := listProcs(ctx, net, t, all)
			if err != nil {
				return err
			}
			if len(records) == 0 && missing == nil {
				a.noteNoProcs(t)
			}
			return errors.Join(a.showProcs(records), missing)
		})
	}
	return c
}

// noteNoProcs explains an empty result.
func (a *app) noteNoProcs(t *target) {
	if t == nil {
		a.notef("no procs: `castnet up` starts a mesh")
		return
	}
	a.notef("no host has a rank of %s", t) // a world whose hosts have not joined
}

// listProcs returns the ranks of a target, or of every mesh. missing names hosts without an answer.
func listProcs(ctx context.Context, net *mesh.Net, t *target, all bool) (records []procRecord, missing, err error) {
	if t != nil {
		return listRanks(ctx, net, *t)
	}
	inv, err := net.Inventory(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range inv.Meshes {
		if all || m.Alive() {
			records = append(records, procRecords(m, func(int) bool { return true })...)
		}
	}
	return records, inv.Err(), nil
}

// listRanks returns the ranks of a target.
func listRanks(ctx context.Context, net *mesh.Net, t target) (records []procRecord, missing, err error) {
	inv, procs, err := net.InventoryFor(ctx, t.name)
	if err != nil {
		return nil, nil, orEmptyWorld(ctx, net, t.name, err)
	}
	p, err := t.resolveIn(procs)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range inv.Meshes {
		if m.Procs.ID() == procs.ID() {
			records = procRecords(m, p.region.Contains)
		}
	}
	return records, p.missingHosts(inv, t), nil
}

// withMissingHosts makes an error a not-found error, or names the silent hosts: they may have what
// was not found.
func withMissingHosts(inv mesh.Inventory, err error) error {
	missing := inv.Err()
	if missing == nil {
		return cli.WithCode(cli.ExitNotFound, err)
	}
	if _, named := errors.AsType[*mesh.MissingHostsError](err); named {
		return err
	}
	return fmt.Errorf("%w; %w", err, missing)
}

// missingHosts names the target's hosts without an answer, or returns nil.
func (p resolvedTarget) missingHosts(inv mesh.Inventory, t target) error {
	ranks, hosts := inv.MissingRanks(p.procs)
	if len(ranks) == 0 {
		return nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.String())
	}
	return cli.WithCode(cli.ExitPartial, fmt.Errorf("%d of %s of %s missing: no answer from %s", len(ranks),
		pluralize(p.region.NumRanks(), "rank"), t, strings.Join(names, ", ")))
}

// listTarget returns the present state of every rank of a target.
func listTarget(ctx context.Context, net *mesh.Net, p resolvedTarget) ([]procRecord, error) {
	meshes, err := net.Meshes(ctx)
	for _, m := range meshes {
		if m.Procs.ID() == p.procs.ID() {
			return procRecords(m, p.region.Contains), nil
		}
	}
	return nil, err
}

// hasLiveRank reports whether a rank of the mesh has not ended.
func hasLiveRank(m mesh.MeshState) bool {
	return slices.ContainsFunc(m.States, func(s agent.State) bool { return !s.Status.Phase.Terminal() })
}

// procRecords returns the wanted ranks in order. For a moved rank it ignores the earlier generation
// on the former host.
func procRecords(m mesh.MeshState, want func(rank int) bool) []procRecord {
	var out []procRecord
	desc := m.Procs.Describe()
	newest := map[int]int{}
	for _, s := range m.States {
		newest[s.Rank] = max(newest[s.Rank], s.Gen)
	}
	for _, s := range m.States {
		if !want(s.Rank) || s.Gen < newest[s.Rank] {
			continue
		}
		r := newProcRecord(s)
		r.Point = formatPoint(desc.Extent, s.Rank)
		if h, err := m.Procs.Host(s.Rank); err == nil {
			r.Host = h.String()
		}
		if s.Proc != nil {
			r.Host = cmp.Or(s.Proc.Host, r.Host)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(x, y procRecord) int { return cmp.Compare(x.Rank, y.Rank) })
	return out
}

// newProcRecord converts the state of a rank.
func newProcRecord(s agent.State) procRecord {
	r := procRecord{Mesh: s.ID, Rank: s.Rank, Status: s.Status.Phase.String(), Reason: s.Status.Reason}
	if p := s.Proc; p != nil {
		r.PID = p.PID
		r.ExitCode = p.ExitCode
		r.Signal = p.Signal
		r.Adopted = p.Adopted
		if !p.Started.IsZero() {
			r.Started = &p.Started
		}
	}
	return r
}

func (a *app) showProcs(records []procRecord) error {
	columns := []string{"mesh", "rank", "point", "host", "pid", "age", "status", "reason"}
	return showRecords(a, records, columns, func(r procRecord) []string {
		up := "-"
		if r.Started != nil && !hasEnded(r.Status) {
			up = formatAge(time.Since(*r.Started))
		}
		return []string{
			r.Mesh, strconv.Itoa(r.Rank), r.Point, hostLabel(r.Host), orDash(formatPID(r.PID)), up,
			a.paintStatus(r.Status), orDash(shorten(r.note(), 60)),
		}
	})
}

// note returns remarks on a rank besides its status.
func (r procRecord) note() string {
	if r.Reason == "" && r.Adopted && !hasEnded(r.Status) {
		return "adopted: an earlier hostd launched it"
	}
	return r.Reason
}

func formatPID(pid int) string {
	if pid == 0 {
		return ""
	}
	return strconv.Itoa(pid)
}

// hostLabel returns the label part of a host ID.
func hostLabel(id string) string {
	h, err := subjects.ParseHostID(id)
	if err != nil {
		return orDash(id)
	}
	return h.Label()
}

func hasEnded(status string) bool {
	return status == agent.Stopped.String() || status == agent.Failed.String()
}

// paintStatus formats a status in colour.
func (a *app) paintStatus(s string) string {
	switch s {
	case agent.Running.String():
		return a.paint(green, s)
	case agent.Failed.String():
		return a.paint(red, s)
	case agent.Stopped.String():
		return a.paint(grey, s)
	}
	return a.paint(yellow, s)
}
