package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// Terminal sequences: enter and leave the alternate screen without line wrap.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenOff = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	redraw    = "\x1b[H\x1b[J"
)

// topWidth is the width of a live line, because lines do not wrap.
const topWidth = 78

func (a *app) topCommand() *cobra.Command {
	every := 2 * time.Second
	rows := 20
	c := &cobra.Command{
		Use:   "top",
		Short: "Show message rates and queues of hosts and procs",
		Long: `Show hosts and procs by handled messages per second and by queued messages. A terminal is
redrawn until Ctrl-C; other outputs get one result, after two samples. Messages to the procs' own
agents are not counted.

A host without an answer stays in the list, with the reports of its procs; then the exit code is 4,
except for a live screen. STALE marks the screen if the last sample failed.

JSON: at, hosts (host, id, procs, queued, handled, rate, state, silence), procs (mesh, rank, point, host, gen,
status, silent, actors, queued, handled, rate, busy). A rate is messages handled in a second.`,
		Example:           "  castnet top\n  castnet top --interval 500ms --rows 40\n  castnet top -o json",
		Args:              wantArgs(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addFlag(c.Flags(), &every, "interval", "DURATION", "time between two samples (default 2s)", readPositiveDuration)
	addFlag(c.Flags(), &rows, "rows", "N", "maximum number of procs in tables (default 20)", readCount)
	c.RunE = func(c *cobra.Command, _ []string) error {
		err := a.withNet(c.Context(), func(net *mesh.Net) error {
			t := &top{net: net, timeout: a.conn.Timeout}
			if a.outTTY && a.output == asTable {
				return a.liveTop(c.Context(), t, every, rows)
			}
			return a.topOnce(c.Context(), t, every, rows)
		})
		if a.outTTY && cli.ExitCode(err) == cli.ExitInterrupted {
			return nil // Ctrl-C is the normal end
		}
		return err
	}
	return c
}

// topOnce prints the difference between two samples.
func (a *app) topOnce(ctx context.Context, t *top, every time.Duration, rows int) error {
	if _, err := t.sample(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, every); err != nil {
		return err
	}
	l, err := t.sample(ctx)
	if err != nil {
		return err
	}
	switch a.output {
	case asJSON:
		err = a.writeJSON(l)
	case asNDJSON:
		err = a.writeJSONLine(l)
	default:
		err = a.showTop(l, rows)
	}
	return errors.Join(err, l.missing)
}

// liveTop redraws until ctx ends. It shows a failed sample and continues, except for the first one.
func (a *app) liveTop(ctx context.Context, t *top, every time.Duration, rows int) error {
	l, err := t.sample(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(a.stdout, screenOn)
	defer fmt.Fprint(a.stdout, screenOff)
	for {
		fmt.Fprint(a.stdout, redraw)
		fmt.Fprintf(a.stdout, "%s  %s, %s; every %s, Ctrl-C ends it\n", l.At.Format(time.TimeOnly), pluralize(len(l.Hosts), "host"), pluralize(len(l.Procs), "proc"), every)
		if err != nil {
			fmt.Fprintln(a.stdout, a.paint(red, shorten(fmt.Sprintf("STALE, %s old: %v", formatAge(time.Since(l.At)), err), topWidth)))
		} else if l.missing != nil {
			fmt.Fprintln(a.stdout, a.paint(yellow, shorten(l.missing.Error(), topWidth)))
		}
		if err := a.showTop(l, rows); err != nil {
			return err
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
		var next topSample
		next, err = t.sample(ctx)
		if err == nil {
			l = next
		} else if ctx.Err() != nil || t.net.Bus().Err() != nil {
			return err
		}
	}
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *app) showTop(l topSample, rows int) error {
	hosts := l.Hosts[:min(len(l.Hosts), rows)]
	err := showRecords(a, hosts, []string{"host", "status", "procs", "msg/s", "queued", "handled"}, func(h topHost) []string {
		status, procs := a.paint(green, h.State), strconv.Itoa(h.Procs)
		if h.State != agent.HostAlive {
			status, procs = a.paint(yellow, h.State), "-"
		}
		return []string{h.Host, status, procs, formatRate(h.Rate), strconv.Itoa(h.Queued), strconv.FormatUint(h.Handled, 10)}
	})
	writeOmitted(a.stdout, len(l.Hosts)-len(hosts), "host")
	if len(l.Procs) == 0 || err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	procs := l.Procs[:min(len(l.Procs), rows)]
	columns := []string{"mesh", "point", "host", "status", "actors", "msg/s", "queued", "handled", "current"}
	err = showRecords(a, procs, columns, func(p topProc) []string {
		status := a.paintStatus(p.Status)
		if p.Silent {
			return []string{p.Mesh, p.Point, hostLabel(p.Host), status, "-", "-", "-", "-", a.paint(yellow, "no answer")}
		}
		return []string{
			p.Mesh, p.Point, hostLabel(p.Host), status, strconv.Itoa(p.Actors), formatRate(p.Rate), strconv.Itoa(p.Queued),
			strconv.FormatUint(p.Handled, 10), orDash(shorten(p.Busy, 40)),
		}
	})
	writeOmitted(a.stdout, len(l.Procs)-len(procs), "proc")
	return err
}

// writeOmitted prints how many rows a table omits.
func writeOmitted(w io.Writer, n int, what string) {
	if n > 0 {
		fmt.Fprintf(w, "and %s with fewer messages\n", pluralize(n, "more "+what))
	}
}

// formatRate formats messages per second.
func formatRate(r float64) string {
	if r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}
