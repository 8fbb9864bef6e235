package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// logRecord is one output line of a proc. Its JSON names are stable.
type logRecord struct {
	Rank   int    `json:"rank"`
	Point  string `json:"point"`
	Stream string `json:"stream"`
	Line   string `json:"line"`
}

// logOptions are the flags of logs.
type logOptions struct {
	tail     int
	follow   bool
	merge    bool
	mergeSet bool // --merge was set
	window   time.Duration
}

// mergesLines reports whether to merge equal lines of ranks: by default on a terminal.
func (o logOptions) mergesLines(a *app) bool {
	if o.mergeSet {
		return o.merge
	}
	return a.outTTY && a.output == asTable
}

func (a *app) logsCommand() *cobra.Command {
	o := logOptions{window: 3 * time.Second}
	c := &cobra.Command{
		Use:   "logs MESH[region]",
		Short: "Show the output of the procs of a mesh",
		Long: `Show the last stdout and stderr lines of each proc, with its coordinates. The mesh is a live
one, or else the newest ended one of that name. With --follow, also show new lines, across restarts,
until every proc has ended for good or Ctrl-C.

Merging shows equal lines of several ranks once, with the region of the ranks:
  [host=0:2,gpu=*] 16× ready
  [*] [32 similar lines] step 100 loss 0.331…0.352
Merging is the default on a terminal. A line waits for equal lines for --merge-window at most, and
mostly a fifth of that. Lines of stderr are yellow, or marked if there are no colours.

If hosts do not answer, the lines of the others are shown, and the exit code is 4.

JSON: rank, point, stream, line; with --follow, one line each; never merged.`,
		Example:           "  castnet logs demo\n  castnet logs 'demo[host=0]' -f --tail 0\n  castnet logs demo -f --merge=false",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(liveNames),
	}
	c.Flags().IntVar(&o.tail, "tail", 20, "show the last `LINES` of each stream first")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "follow new output")
	c.Flags().BoolVar(&o.merge, "merge", false, "merge equal lines of several ranks (default on a terminal)")
	addFlag(c.Flags(), &o.window, "merge-window", "DURATION", "longest wait for lines to merge (default 3s)", readPositiveDuration)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		o.mergeSet = c.Flags().Changed("merge")
		switch {
		case o.tail < 0:
			return cli.Usagef("--tail is %d, want 0 or more", o.tail)
		case o.merge && a.output != asTable:
			return cli.Usagef("--merge has no effect on JSON: want it without --output %s", a.output)
		case o.follow:
			return a.followLogs(c.Context(), t, o)
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			p, silent, err := t.resolveWithEnded(ctx, net)
			if err != nil {
				return err
			}
			return a.showTails(ctx, p, o, silent)
		})
	}
	return c
}

// showTails prints the output so far.
func (a *app) showTails(ctx context.Context, p resolvedTarget, o logOptions, silent error) error {
	tails, missing, err := p.tailLogs(ctx, o.tail, silent)
	if err != nil {
		return err
	}
	records := []logRecord{}
	for _, t := range tails {
		records = append(records, p.logRecords(t)...)
	}
	if a.output == asJSON {
		return errors.Join(a.writeJSON(records), missing)
	}
	if len(records) == 0 && missing == nil {
		a.notef("no output so far")
	}
	v := a.newLogView(p, o)
	return errors.Join(v.show(records...), v.flush(), missing)
}

// followLogs prints the output so far, then new output.
func (a *app) followLogs(ctx context.Context, t target, o logOptions) error {
	err := a.withNet(ctx, func(net *mesh.Net) error {
		within, cancel := context.WithTimeout(ctx, a.conn.Timeout)
		defer cancel()
		p, silent, err := t.resolveWithEnded(within, net)
		if err != nil {
			return err
		}
		f, err := newLogFollower(net, p) // before the tails, so that no line is lost in between
		if err != nil {
			return err
		}
		defer f.close()
		ends, err := watchEnds(ctx, net, p)
		if err != nil {
			return err
		}
		defer ends.close()
		tails, missing, err := p.tailLogs(within, o.tail, silent)
		if err != nil {
			return err
		}
		if missing != nil {
			a.notef("castnet: %v", missing) // continue; their lines may still arrive
		}
		v := a.newLogView(p, o)
		for _, t := range tails {
			if err := v.show(p.logRecords(t)...); err != nil {
				return err
			}
		}
		return errors.Join(a.printLive(ctx, t, v, f, ends, tails), v.flush(), missing)
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is a normal end
	}
	return err
}

// printLive prints lines on arrival. It holds early lines until those already in the tails are
// known.
func (a *app) printLive(ctx context.Context, t target, v *logView, f *logFollower, ends *endWatch, tails []agent.LogTail) error {
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
			a.notef("%s", which)
		case <-ends.over:
			err = errors.Join(v.show(f.drain()...), v.flush())
			a.notef("%s", endSummary(t, ends.how))
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
			a.notef("castnet: %d lines were lost: they arrived faster than they were shown", n)
		}
	}
}

// logRecords returns the lines of a tail.
func (p resolvedTarget) logRecords(t agent.LogTail) []logRecord {
	out := make([]logRecord, len(t.Lines))
	for i, l := range t.Lines {
		out[i] = logRecord{Rank: t.Rank, Point: formatPoint(p.base, t.Rank), Stream: t.Stream, Line: l}
	}
	return out
}
