package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// logView prints lines, grouped or one by one.
type logView struct {
	*app
	target  resolvedTarget
	grouper *rowGrouper // nil: one by one
}

func (a *app) newLogView(p resolvedTarget, o logOptions) *logView {
	v := &logView{app: a, target: p}
	if ranks := p.region.NumRanks(); ranks > 1 && o.mergesLines(a) {
		v.grouper = newRowGrouper(ranks, o.window)
	}
	return v
}

// show adds lines. Lines that may still join a group wait.
func (v *logView) show(records ...logRecord) error {
	if v.grouper == nil {
		return v.printLogs(records)
	}
	now := time.Now()
	for _, r := range records {
		v.grouper.add(r, now)
	}
	return v.printGroups(v.grouper.ready(now))
}

// showDue prints the due lines.
func (v *logView) showDue() error {
	if v.grouper == nil {
		return nil
	}
	return v.printGroups(v.grouper.ready(time.Now()))
}

// untilDue returns the time until lines are due.
func (v *logView) untilDue() time.Duration {
	if v.grouper == nil {
		return time.Hour
	}
	return v.grouper.untilReady(time.Now())
}

// flush prints all lines.
func (v *logView) flush() error {
	if v.grouper == nil {
		return nil
	}
	return v.printGroups(v.grouper.takeAll())
}

func (v *logView) printGroups(groups []*rowGroup) (err error) {
	for _, g := range groups {
		count, line := g.describeLines()
		if count != "" {
			count = v.paint(bold, count) + " "
		}
		err = errors.Join(err, v.printLine(g.describeRanks(v.target.base), rankColour(g.records[0].Rank), g.stream, count, line))
	}
	return err
}

// bold marks a group.
const bold colour = 1

// printLogs prints lines with their ranks.
func (a *app) printLogs(records []logRecord) (err error) {
	for _, r := range records {
		if a.output != asTable {
			err = errors.Join(err, a.writeJSONLine(r))
			continue
		}
		err = errors.Join(err, a.printLine(r.Point, rankColour(r.Rank), r.Stream, "", r.Line))
	}
	return err
}

// printLine prints a line and marks stderr by colour, or by name without colours.
func (a *app) printLine(who string, c colour, stream, count, line string) error {
	if stream != "stdout" {
		if !a.useColor || !a.outTTY {
			who += " " + stream
		}
		line = a.paint(yellow, line)
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s%s\n", a.paint(c, "["+who+"]"), count, line)
	return err
}

// rankColour gives adjacent ranks different colours.
func rankColour(rank int) colour {
	return [...]colour{cyan, green, magenta, blue}[rank%4]
}

// resolveWithEnded finds a live mesh, else the newest ended one, whose hosts keep its output for a
// while. missing names hosts without an answer.
func (t target) resolveWithEnded(ctx context.Context, net *mesh.Net) (p resolvedTarget, missing, err error) {
	inv, m, missing, err := t.findWithEnded(ctx, net)
	if err != nil {
		return resolvedTarget{}, nil, orEmptyWorld(ctx, net, t.name, err)
	}
	p, err = t.resolveIn(m.Procs)
	return p, cmp.Or(p.missingHosts(inv, t), missing), err
}

// tailLogs returns the last lines of a target's ranks. It does not wait for silent hosts. missing
// names these and other hosts without an answer.
func (p resolvedTarget) tailLogs(ctx context.Context, lines int, silent error) (tails []agent.LogTail, missing, err error) {
	if silent != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inspectTimeout)
		defer cancel()
	}
	tails, err = p.procs.Logs(ctx, lines)
	some, partly := errors.AsType[*mesh.HostsError](err)
	switch {
	case err == nil:
		return tails, silent, nil
	case silent != nil && partly && len(some.Failed) < some.Hosts:
		return tails, silent, nil
	case partly && len(some.Failed) < some.Hosts:
		return tails, cli.WithCode(cli.ExitPartial, err), nil
	}
	return tails, nil, errors.Join(err, silent)
}

// findWithEnded finds the live mesh, else the newest ended one. missing names the silent hosts that
// may have a live one.
func (t target) findWithEnded(ctx context.Context, net *mesh.Net) (inv mesh.Inventory, found mesh.MeshState, missing, err error) {
	inv, p, err := net.InventoryFor(ctx, t.name)
	if _, unknown := errors.AsType[*mesh.NotFoundError](err); err != nil && !unknown {
		return inv, found, nil, err
	}
	var newest time.Time
	for _, m := range inv.Meshes {
		id := m.Procs.ID()
		if err == nil && id == p.ID() {
			return inv, m, nil, nil
		}
		if id.String() != t.name && id.Label() != t.name {
			continue
		}
		if at := startTime(m); found.States == nil || at.After(newest) {
			found, newest = m, at
		}
	}
	if found.States == nil {
		return inv, found, nil, err
	}
	return inv, found, inv.Err(), nil
}

// startTime returns the start time of a mesh's first rank.
func startTime(m mesh.MeshState) (first time.Time) {
	for _, s := range m.States {
		if p := s.Proc; p != nil && !p.Started.IsZero() && (first.IsZero() || p.Started.Before(first)) {
			first = p.Started
		}
	}
	return first
}

// endSummary summarizes the ends of a target's ranks.
func endSummary(t target, ends map[int]string) string {
	failed := 0
	for _, status := range ends {
		if status == agent.Failed.String() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Sprintf("%s has ended: %d of %s failed", t, failed, pluralize(len(ends), "proc"))
	}
	return fmt.Sprintf("%s has ended: %s stopped", t, pluralize(len(ends), "proc"))
}
