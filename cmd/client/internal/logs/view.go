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
	target  target.Resolved
	grouper *rowGrouper // nil: one by one
}

func newLogView(out *output.Printer, p target.Resolved, o Options) *logView {
	v := &logView{Printer: out, target: p}
	if ranks := p.Region.NumRanks(); ranks > 1 && o.mergesLines(out) {
		v.grouper = newRowGrouper(ranks, o.Window)
	}
	return v
}

// show adds lines. Lines that may still join a group wait.
func (v *logView) show(records ...Record) error {
	if v.grouper == nil {
		return printLogs(v.Printer, records)
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
		err = errors.Join(
			err,
			printLine(v.Printer, g.describeRanks(v.target.Base), rankColour(g.records[0].Rank), g.stream, count, line),
		)
	}
	return err
}

// bold marks a group.
const bold output.Colour = 1

// printLogs prints lines with their ranks.
func printLogs(out *output.Printer, records []Record) (err error) {
	for _, r := range records {
		if out.Format != output.Table {
			err = errors.Join(err, out.WriteJSONLine(r))
			continue
		}
		err = errors.Join(err, printLine(out, r.Point, rankColour(r.Rank), r.Stream, "", r.Line))
	}
	return err
}

// printLine prints a line and marks stderr by colour, or by name without colours.
func printLine(out *output.Printer, who string, c output.Colour, stream, count, line string) error {
	if stream != "stdout" {
		if !out.UseColor || !out.OutTTY {
			who += " " + stream
		}
		line = out.Paint(output.Yellow, line)
	}
	_, err := fmt.Fprintf(out.Stdout, "%s %s%s\n", out.Paint(c, "["+who+"]"), count, line)
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
	p target.Resolved, ctx context.Context, lines int, silent error,
) (tails []agent.LogTail, missing, err error) {
	if silent != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silentTimeout)
		defer cancel()
	}
	tails, err = p.Procs.Logs(ctx, lines)
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
