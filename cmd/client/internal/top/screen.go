package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/mesh/inspect"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
)

// Terminal sequences: enter and leave the alternate screen without line wrap.
const (
	ScreenOn  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	ScreenOff = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	Redraw    = "\x1b[H\x1b[J"
)

// Once prints the difference between two samples.
func Once(ctx context.Context, out *output.Printer, t *inspect.Sampler, every time.Duration, rows int) error {
	if _, err := t.Sample(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, every); err != nil {
		return err
	}
	l, err := t.Sample(ctx)
	if err != nil {
		return err
	}
	written, err := out.WriteDocument(l)
	if !written {
		err = showTop(out, l, rows)
	}
	return errors.Join(err, l.Missing)
}

// Live redraws until ctx ends. It shows a failed sample and continues, except for the first one.
func Live(ctx context.Context, out *output.Printer, t *inspect.Sampler, every time.Duration, rows int) error {
	l, err := t.Sample(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out.Stdout, ScreenOn)
	defer fmt.Fprint(out.Stdout, ScreenOff)
	for {
		fmt.Fprint(out.Stdout, Redraw)
		fmt.Fprintf(
			out.Stdout, "%s  %s, %s; every %s, Ctrl-C ends it\n", l.At.Format(time.TimeOnly),
			text.Pluralize(len(l.Hosts), "host"), text.Pluralize(len(l.Procs), "proc"), every,
		)
		if err != nil {
			fmt.Fprintln(
				out.Stdout,
				out.Paint(output.Red, out.Cut(fmt.Sprintf("STALE, %s old: %v", text.Age(time.Since(l.At)), err))),
			)
		} else if l.Missing != nil {
			fmt.Fprintln(out.Stdout, out.Paint(output.Yellow, out.Cut(l.Missing.Error())))
		}
		if err := showTop(out, l, rows); err != nil {
			return err
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
		var next inspect.Sample
		next, err = t.Sample(ctx)
		if err == nil {
			l = next
		} else if ctx.Err() != nil || t.Net.Bus().Err() != nil {
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

func showTop(out *output.Printer, l inspect.Sample, rows int) error {
	hosts := l.Hosts[:min(len(l.Hosts), rows)]
	err := output.Records(out, hosts, []string{"host", "status", "procs", "msg/s", "queued", "handled"},
		func(h inspect.HostCounters) []string {
			status, procs := out.Paint(output.Green, h.State), strconv.Itoa(h.Procs)
			if h.State != agent.HostAlive {
				status, procs = out.Paint(output.Yellow, h.State), "-"
			}
			return []string{
				h.Host, status, procs, formatRate(h.Rate), strconv.Itoa(h.Queued), strconv.FormatUint(h.Handled, 10),
			}
		})
	writeOmitted(out.Stdout, len(l.Hosts)-len(hosts), "host")
	if len(l.Procs) == 0 || err != nil {
		return err
	}
	fmt.Fprintln(out.Stdout)
	procs := l.Procs[:min(len(l.Procs), rows)]
	columns := []string{"mesh", "point", "host", "status", "actors", "msg/s", "queued", "handled", "current"}
	err = output.Records(out, procs, columns, func(p inspect.ProcCounters) []string {
		status := out.PaintStatus(p.Status)
		if p.Silent {
			return []string{
				p.Mesh, p.Point, text.HostLabel(p.Host), status, "-", "-", "-", "-",
				out.Paint(output.Yellow, "no answer"),
			}
		}
		return []string{
			p.Mesh, p.Point, text.HostLabel(p.Host), status, strconv.Itoa(p.Actors), formatRate(p.Rate), strconv.Itoa(
				p.Queued,
			),
			strconv.FormatUint(p.Handled, 10), text.OrDash(text.Shorten(p.Busy, 40)),
		}
	})
	writeOmitted(out.Stdout, len(l.Procs)-len(procs), "proc")
	return err
}

// writeOmitted prints how many rows a table omits.
func writeOmitted(w io.Writer, n int, what string) {
	if n > 0 {
		fmt.Fprintf(w, "and %s with fewer messages\n", text.Pluralize(n, "more "+what))
	}
}

// formatRate formats messages per second.
func formatRate(r float64) string {
	if r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}
