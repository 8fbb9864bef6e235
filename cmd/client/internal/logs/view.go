package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

const (
	// silentTimeout bounds the wait for lines if a host did not answer the search.
	silentTimeout = 2 * time.Second
	// timePerHost adds to silentTimeout: the answers of many hosts take this machine a while.
	timePerHost = 10 * time.Millisecond
)

// tailLogs returns the last lines of a target's ranks. It does not wait for silent hosts. missing
// names the hosts without an answer.
func tailLogs(
	ctx context.Context, l target.Located, q mesh.LogQuery,
) (tails []agent.LogTail, missing, err error) {
	ctx, cancel := withoutSilent(ctx, l)
	defer cancel()
	tails, err = l.Procs.Logs(ctx, q)
	missing, err = missingHosts(err, l)
	return tails, missing, err
}

// withoutSilent shortens the wait if a host of the target did not answer the search.
func withoutSilent(ctx context.Context, l target.Located) (context.Context, context.CancelFunc) {
	if l.MissingHosts(l.Inventory, l.Target) == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, silentTimeout+time.Duration(len(l.Inventory.Hosts))*timePerHost)
}

// missingHosts splits the error of a request for lines. If some hosts have answered it, missing
// names the others. The search may have missed hosts that answer now.
func missingHosts(asked error, l target.Located) (missing, err error) {
	some, partly := errors.AsType[*mesh.HostsError](asked)
	switch {
	case asked == nil:
		return l.Missing, nil
	case !partly || len(some.Failed) == some.Hosts:
		return nil, errors.Join(asked, l.MissingHosts(l.Inventory, l.Target))
	}
	inv := l.Inventory
	inv.Hosts = slices.DeleteFunc(slices.Clone(inv.Hosts), func(h mesh.HostState) bool {
		return !slices.ContainsFunc(some.Failed, func(f mesh.HostError) bool { return f.Host == h.ID })
	})
	if _, silent := inv.MissingRanks(l.Procs); len(silent) == len(some.Failed) {
		return l.MissingHosts(inv, l.Target), nil
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
