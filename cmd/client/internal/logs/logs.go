package logs

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// Record is one output line of a proc. Its JSON names are stable.
type Record struct {
	Rank   int    `json:"rank"`
	Point  string `json:"point"`
	Stream string `json:"stream"`
	Line   string `json:"line"`

	Time time.Time `json:"time,omitzero"` // when its host read it; zero: unknown
}

// Options are the flags of logs.
type Options struct {
	mesh.LogQuery
	Timestamps bool
	Follow     bool
	Merge      bool
	MergeSet   bool // --merge was set
	Window     time.Duration
}

// mergesLines reports whether to merge equal lines of ranks: by default on a terminal.
func (o Options) mergesLines(out *output.Printer) bool {
	if o.MergeSet {
		return o.Merge
	}
	return out.OutTTY && out.Format == output.Table
}

func (o Options) describeNothing() string {
	if o.Grep != "" || !o.Since.IsZero() {
		return "no line matches"
	}
	return "no output so far"
}

// ShowTails prints the output so far.
func ShowTails(ctx context.Context, out *output.Printer, p target.Resolved, o Options, silent error) error {
	tails, missing, err := tailLogs(p, ctx, o.LogQuery, silent)
	if err != nil {
		return err
	}
	records := []Record{}
	for _, t := range tails {
		records = append(records, logRecords(p, t)...)
	}
	if out.Format == output.JSON {
		return errors.Join(out.WriteJSON(records), missing)
	}
	if len(records) == 0 && missing == nil {
		out.Notef("%s", o.describeNothing())
	}
	v := newLogView(out, p, o)
	return errors.Join(v.show(records...), v.flush(), missing)
}

// FollowLogs prints the output so far, then new output.
func FollowLogs(ctx context.Context, a *app.App, t target.Target, o Options) error {
	err := a.WithNet(ctx, func(conn *mesh.Net) error {
		within, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
		defer cancel()
		p, silent, err := t.ResolveWithEnded(within, conn)
		if err != nil {
			return err
		}
		f, err := newLogFollower(conn, p, o.Grep) // before the tails, so that no line is lost in between
		if err != nil {
			return err
		}
		defer f.close()
		ends := watchEnds(ctx, conn, p)
		defer ends.close()
		tails, missing, err := tailLogs(p, within, o.LogQuery, silent)
		if err != nil {
			return err
		}
		if missing != nil {
			a.Notef("castnet: %v", missing) // continue; their lines may still arrive
		}
		v := newLogView(a.Printer, p, o)
		for _, t := range tails {
			if err := v.show(logRecords(p, t)...); err != nil {
				return err
			}
		}
		return errors.Join(printLive(ctx, a.Printer, t, v, f, ends, tails), v.flush(), missing)
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is a normal end
	}
	return err
}

// printLive prints lines on arrival. It holds early lines until those already in the tails are
// known.
func printLive(
	ctx context.Context, out *output.Printer, t target.Target, v *logView, f *logFollower, ends *endWatch,
	tails []agent.LogTail,
) error {
	early, err := f.collectEarly(ctx)
	if err != nil {
		return err
	}
	if err := v.show(dropShown(early, tails)...); err != nil {
		return err
	}
	for {
		due := time.NewTimer(v.untilDue())
		select {
		case r := <-f.lines:
			err = v.show(r)
		case <-due.C:
			err = v.showDue()
		case which := <-ends.again:
			out.Notef("%s", which)
		case <-ends.over:
			err = errors.Join(v.show(f.drain()...), v.flush())
			out.Notef("%s", endSummary(t, ends.how))
			return err
		case <-ends.net.Bus().Done():
			return ends.net.Bus().Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		due.Stop()
		if err != nil {
			return err
		}
		if n := f.lost.Swap(0); n > 0 {
			out.Notef("castnet: %d lines were lost: they arrived faster than they were shown", n)
		}
	}
}

// logRecords returns the lines of a tail.
func logRecords(p target.Resolved, t agent.LogTail) []Record {
	out := make([]Record, len(t.Lines))
	for i, l := range t.Lines {
		out[i] = Record{
			Rank: t.Rank, Point: inspect.Point(p.Base, t.Rank), Stream: t.Stream, Line: l, Time: t.Time(i),
		}
	}
	return out
}
