package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// logView shows lines, merged or as they are.
type logView struct {
	*app
	p      place
	merger *merger // nil: as they are
}

func (a *app) newLogView(p place, o logOptions) *logView {
	v := &logView{app: a, p: p}
	if ranks := p.region.NumRanks(); ranks > 1 && o.merged(a) {
		v.merger = newMerger(ranks, o.window)
	}
	return v
}

// show takes lines; those that may still be joined by others wait.
func (v *logView) show(records ...logRecord) error {
	if v.merger == nil {
		return v.printLogs(records)
	}
	now := time.Now()
	for _, r := range records {
		v.merger.add(r, now)
	}
	return v.groups(v.merger.ready(now))
}

// due shows what has waited long enough.
func (v *logView) due() error {
	if v.merger == nil {
		return nil
	}
	return v.groups(v.merger.ready(time.Now()))
}

// wait is how long nothing is due.
func (v *logView) wait() time.Duration {
	if v.merger == nil {
		return time.Hour
	}
	return v.merger.wait(time.Now())
}

// rest shows everything.
func (v *logView) rest() error {
	if v.merger == nil {
		return nil
	}
	return v.groups(v.merger.rest())
}

func (v *logView) groups(groups []*group) (err error) {
	for _, g := range groups {
		count, line := g.what()
		if count != "" {
			count = v.paint(bold, count) + " "
		}
		err = errors.Join(err, v.printLine(g.who(v.p.base), rankColour(g.records[0].Rank), g.stream, count, line))
	}
	return err
}

// bold is for what stands for many.
const bold colour = 1

// printLogs shows lines, each with its rank.
func (a *app) printLogs(records []logRecord) (err error) {
	for _, r := range records {
		if a.output != asTable {
			err = errors.Join(err, a.line(r))
			continue
		}
		err = errors.Join(err, a.printLine(r.Point, rankColour(r.Rank), r.Stream, "", r.Line))
	}
	return err
}

// printLine tells what went to stderr apart: by colour, and where there is none by name.
func (a *app) printLine(who string, c colour, stream, count, line string) error {
	if stream != "stdout" {
		if !a.colours || !a.outTTY {
			who += " " + stream
		}
		line = a.paint(yellow, line)
	}
	_, err := fmt.Fprintf(a.out, "%s %s%s\n", a.paint(c, "["+who+"]"), count, line)
	return err
}

// rankColour tells neighbouring ranks apart.
func rankColour(rank int) colour {
	return [...]colour{cyan, green, magenta, blue}[rank%4]
}

// findPrinted finds a mesh that lives, or else the newest that has ended: its hosts keep what it has
// printed for a while. missing names its hosts that did not answer.
func (t target) findPrinted(ctx context.Context, net *mesh.Net) (p place, missing, err error) {
	inv, err := net.Inventory(ctx)
	if err != nil {
		return place{}, nil, err
	}
	m, err := t.among(net, inv.Meshes)
	if err != nil {
		return place{}, nil, orMissing(inv, orBareWorld(ctx, net, t.name, err))
	}
	p, err = t.in(m.Procs)
	return p, p.missing(inv, t), err
}

// tails are the last lines of the ranks of a place. Hosts that are known to be silent are not waited for; they are named in
// missing, as those are that do not answer.
func (p place) tails(ctx context.Context, lines int, silent error) (tails []agent.LogTail, missing, err error) {
	if silent != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerWithin)
		defer cancel()
	}
	tails, err = p.procs.Logs(ctx, lines)
	some, partly := errors.AsType[*mesh.AttachError](err)
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

// among picks the mesh that lives, or else the newest that has ended.
func (t target) among(net *mesh.Net, all []mesh.MeshState) (found mesh.MeshState, err error) {
	p, missing := net.Among(all, t.name)
	if missing != nil && cli.ExitCode(missing) != cli.ExitNotFound {
		return found, missing
	}
	var newest time.Time
	for _, m := range all {
		id := m.Procs.ID()
		if missing == nil && id == p.ID() {
			return m, nil
		}
		if id.String() != t.name && id.Label() != t.name {
			continue
		}
		if at := begun(m); found.States == nil || at.After(newest) {
			found, newest = m, at
		}
	}
	if found.States == nil {
		return found, missing
	}
	return found, nil
}

// begun is when the first rank of a mesh was started.
func begun(m mesh.MeshState) (first time.Time) {
	for _, s := range m.States {
		if p := s.Proc; p != nil && !p.Started.IsZero() && (first.IsZero() || p.Started.Before(first)) {
			first = p.Started
		}
	}
	return first
}

// endOf says how the ranks of a place have ended.
func endOf(t target, ends map[int]string) string {
	failed := 0
	for _, status := range ends {
		if status == agent.Failed.String() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Sprintf("%s has ended: %d of %s failed", t, failed, count(len(ends), "proc"))
	}
	return fmt.Sprintf("%s has ended: %s stopped", t, count(len(ends), "proc"))
}
