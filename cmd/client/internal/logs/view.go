package logs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

// logView prints lines.
type logView struct {
	*output.Printer
	timestamps bool
}

// bold marks folded lines.
const bold output.Colour = 1

// show prints lines. News of hosts go to stderr.
func (v logView) show(lines ...mesh.LogLine) (err error) {
	for _, l := range lines {
		switch {
		case l.Rank < 0:
			v.Notef("castnet: %s", strings.TrimPrefix(l.Text, "[castnet] "))
		case v.Format != output.Table:
			err = errors.Join(err, v.WriteJSONLine(record(l)))
		default:
			err = errors.Join(err, v.printLine(l))
		}
	}
	return err
}

// printLine prints a line and marks stderr by colour, or by name without colours.
func (v logView) printLine(l mesh.LogLine) error {
	who := l.Ranks
	text := l.Text
	if l.Stream != "stdout" {
		if !v.UseColor || !v.OutTTY {
			who += " " + l.Stream
		}
		text = v.Paint(output.Yellow, text)
	}
	at := ""
	if v.timestamps {
		at = "- "
		if !l.Time.IsZero() {
			at = l.Time.UTC().Format(time.RFC3339) + " "
		}
	}
	count := l.Multiplicity()
	if count != "" {
		count = v.Paint(bold, count) + " "
	}
	_, err := fmt.Fprintf(v.Stdout, "%s%s %s%s\n", at, v.Paint(rankColour(l.Rank), "["+who+"]"), count, text)
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
	ctx, cancel := withoutSilent(ctx, silent)
	defer cancel()
	tails, err = p.Procs.Logs(ctx, q)
	missing, err = missingHosts(err, silent)
	return tails, missing, err
}

// withoutSilent shortens the wait if a host is known to be silent.
func withoutSilent(ctx context.Context, silent error) (context.Context, context.CancelFunc) {
	if silent == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, silentTimeout)
}

// missingHosts splits an error: missing names the hosts without an answer if others have answered.
func missingHosts(asked, silent error) (missing, err error) {
	some, partly := errors.AsType[*mesh.HostsError](asked)
	switch {
	case asked == nil:
		return silent, nil
	case !partly || len(some.Failed) == some.Hosts:
		return nil, errors.Join(asked, silent)
	case silent != nil:
		return silent, nil
	}
	return cli.WithCode(cli.ExitPartial, asked), nil
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
