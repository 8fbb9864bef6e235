package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

// logView prints lines, grouped or one by one.
type logView struct {
	*output.Printer
	target     target.Resolved
	timestamps bool
	grouper    *rowGrouper // nil: one by one
}

func newLogView(out *output.Printer, p target.Resolved, o Options) *logView {
	v := &logView{Printer: out, target: p, timestamps: o.Timestamps}
	if ranks := p.Region.NumRanks(); ranks > 1 && o.mergesLines(out) {
		v.grouper = newRowGrouper(ranks, o.Window)
	}
	return v
}

// show adds lines. Lines that may still join a group wait.
func (v *logView) show(records ...Record) error {
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
			count = v.Paint(bold, count) + " "
		}
		shown := g.records[0]
		shown.Point = g.describeRanks(v.target.Base)
		shown.Line = line
		err = errors.Join(err, v.printLine(shown, count))
	}
	return err
}

// bold marks a group.
const bold output.Colour = 1

// printLogs prints lines with their ranks.
func (v *logView) printLogs(records []Record) (err error) {
	for _, r := range records {
		if v.Format != output.Table {
			err = errors.Join(err, v.WriteJSONLine(r))
			continue
		}
		err = errors.Join(err, v.printLine(r, ""))
	}
	return err
}

// printLine prints a line and marks stderr by colour, or by name without colours.
func (v *logView) printLine(r Record, count string) error {
	who := r.Point
	line := r.Line
	if r.Stream != "stdout" {
		if !v.UseColor || !v.OutTTY {
			who += " " + r.Stream
		}
		line = v.Paint(output.Yellow, line)
	}
	at := ""
	if v.timestamps {
		at = "- "
		if !r.Time.IsZero() {
			at = r.Time.UTC().Format(time.RFC3339) + " "
		}
	}
	_, err := fmt.Fprintf(v.Stdout, "%s%s %s%s\n", at, v.Paint(rankColour(r.Rank), "["+who+"]"), count, line)
	return err
}

// rankColour gives adjacent ranks different colours.
func rankColour(rank int) output.Colour {
	return [...]output.Colour{output.Cyan, output.Green, output.Magenta, output.Blue}[rank%4]
}

// silentTimeout bounds the wait for last lines if a host is known to be silent.
const silentTimeout = 2 * time.Second

// tailLogs returns the last lines of a target's ranks. It does not wait for silent hosts. missing
// names these and other hosts without an answer.
func tailLogs(
	p target.Resolved, ctx context.Context, q mesh.LogQuery, silent error,
) (tails []agent.LogTail, missing, err error) {
	if silent != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silentTimeout)
		defer cancel()
	}
	tails, err = p.Procs.Logs(ctx, q)
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

// endSummary summarizes the ends of a target's ranks.
func endSummary(t target.Target, ends map[int]string) string {
	failed := 0
	for _, status := range ends {
		if status == agent.Failed.String() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Sprintf("%s has ended: %d of %s failed", t, failed, text.Pluralize(len(ends), "proc"))
	}
	return fmt.Sprintf("%s has ended: %s stopped", t, text.Pluralize(len(ends), "proc"))
}
