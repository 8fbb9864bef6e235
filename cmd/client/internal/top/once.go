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

// Options are those of the command.
type Options struct {
	Interval time.Duration
	Rows     int    // of a table
	Sort     string // one of inspect.SortKeys
}

// Once prints the difference between two samples.
func Once(ctx context.Context, out *output.Printer, t *inspect.Sampler, o Options) error {
	if _, err := t.Sample(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, o.Interval); err != nil {
		return err
	}
	l, err := t.Sample(ctx)
	if err != nil {
		return err
	}
	l.Sort(o.Sort)
	written, err := out.WriteDocument(l)
	if !written {
		err = showTop(out, l, o.Rows)
	}
	return errors.Join(err, l.Missing)
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
	columns := []string{"host", "status", "procs", "cpu", "mem", "msg/s", "queued", "handled"}
	err := output.Records(out, hosts, columns,
		func(h inspect.HostCounters) []string {
			status, procs := out.Paint(output.Green, h.State), strconv.Itoa(h.Procs)
			if h.State != agent.HostAlive {
				status, procs = out.PaintHostState(h.State), "-"
			}
			if h.State != agent.HostAlive && h.Counters == (inspect.Counters{}) {
				return []string{h.Host, status, procs, "-", "-", "-", "-", "-"}
			}
			return []string{
				h.Host, status, procs, formatCPU(h.Counters), text.Size(h.Memory), formatRate(h.Rate),
				strconv.Itoa(h.Queued), strconv.FormatUint(h.Handled, 10),
			}
		})
	writeOmitted(out.Stdout, len(l.Hosts)-len(hosts), "host")
	if len(l.Procs) == 0 || err != nil {
		return err
	}
	fmt.Fprintln(out.Stdout)
	procs := l.Procs[:min(len(l.Procs), rows)]
	columns = []string{"mesh", "point", "host", "status", "cpu", "mem", "msg/s", "queued", "current"}
	err = output.Records(out, procs, columns, func(p inspect.ProcCounters) []string {
		row := []string{
			p.Mesh, p.Point, text.HostLabel(p.Host), out.PaintStatus(p.Status), formatCPU(p.Counters),
			text.Size(p.Memory),
		}
		if p.Silent {
			return append(row, "-", "-", out.Paint(output.Yellow, "no answer"))
		}
		return append(row, formatRate(p.Rate), strconv.Itoa(p.Queued), text.OrDash(text.Shorten(p.Busy, 40)))
	})
	writeOmitted(out.Stdout, len(l.Procs)-len(procs), "proc")
	return err
}

// writeOmitted prints how many rows a table omits.
func writeOmitted(w io.Writer, n int, what string) {
	if n > 0 {
		fmt.Fprintf(w, "and %s\n", text.Pluralize(n, "more "+what))
	}
}

// formatCPU formats the use of CPUs; "-": unknown.
func formatCPU(c inspect.Counters) string {
	if c.Memory == 0 { // every process has some
		return "-"
	}
	return fmt.Sprintf("%.0f%%", c.CPU)
}

// formatRate formats messages per second.
func formatRate(r float64) string {
	if r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}
