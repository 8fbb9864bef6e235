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

// logRecord is one line that a proc printed; its JSON names are stable.
type logRecord struct {
	Rank   int    `json:"rank"`
	Point  string `json:"point"`
	Stream string `json:"stream"`
	Line   string `json:"line"`
}

// logOptions are the flags of logs.
type logOptions struct {
	tail   int
	follow bool
	merge  bool
	chosen bool // merge was given
	window time.Duration
}

// merged reports whether lines of several ranks are folded: by default for people, who look at a
// terminal.
func (o logOptions) merged(a *app) bool {
	if o.chosen {
		return o.merge
	}
	return a.outTTY && a.output == asTable
}

func (a *app) logsCommand() *cobra.Command {
	o := logOptions{window: 3 * time.Second}
	c := &cobra.Command{
		Use:   "logs MESH[region]",
		Short: "Show what the procs of a mesh print",
		Long: `Show the last lines each proc has printed to stdout and stderr, with its coordinates:
of a mesh that lives, or else of the newest of that name that has ended.
With --follow, go on with what they print from then on, also when they are started again, until they
have ended for good or Ctrl-C.

Merged, lines that several ranks print alike are one, with the region of the ranks:
  [host=0:2,gpu=*] 16× ready
  [*] [32 similar lines] step 100 loss 0.331…0.352
That is the default on a terminal; a line waits for others like it for --window at most,
and mostly a fifth of that. Lines of stderr are yellow, or marked where there are no colours.

When hosts do not answer, the lines of the others are shown, and the exit code is 4.

JSON: rank, point, stream, line; with --follow, one line each; never merged.`,
		Example:           "  client logs demo\n  client logs 'demo[host=0]' -f --tail 0\n  client logs demo -f --merge=false",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(liveNames),
	}
	c.Flags().IntVar(&o.tail, "tail", 20, "last `LINES` of each stream to begin with")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what is printed from now on")
	c.Flags().BoolVar(&o.merge, "merge", false, "fold lines that several ranks print alike (default on a terminal)")
	readFlag(c.Flags(), &o.window, "window", "DURATION", "longest wait for lines to merge (default 3s)", readPause)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		o.chosen = c.Flags().Changed("merge")
		switch {
		case o.tail < 0:
			return cli.Usagef("--tail is %d, want 0 or more", o.tail)
		case o.merge && a.output != asTable:
			return cli.Usagef("--merge is for people, want it without --output %s", a.output)
		case o.follow:
			return a.followLogs(c.Context(), t, o)
		}
		return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			p, silent, err := t.findPrinted(ctx, net)
			if err != nil {
				return err
			}
			return a.lastLogs(ctx, p, o, silent)
		})
	}
	return c
}

// lastLogs shows what was printed so far.
func (a *app) lastLogs(ctx context.Context, p place, o logOptions, silent error) error {
	tails, missing, err := p.tails(ctx, o.tail, silent)
	if err != nil {
		return err
	}
	records := []logRecord{}
	for _, t := range tails {
		records = append(records, p.logRecords(t)...)
	}
	if a.output == asJSON {
		return errors.Join(a.document(records), missing)
	}
	if len(records) == 0 && missing == nil {
		a.note("nothing was printed so far")
	}
	v := a.newLogView(p, o)
	return errors.Join(v.show(records...), v.rest(), missing)
}

// followLogs shows what was printed so far, and then what is printed from now on.
func (a *app) followLogs(ctx context.Context, t target, o logOptions) error {
	err := a.connected(ctx, func(net *mesh.Net) error {
		within, cancel := context.WithTimeout(ctx, a.conn.Timeout)
		defer cancel()
		p, silent, err := t.findPrinted(within, net)
		if err != nil {
			return err
		}
		f, err := newFollower(net, p) // before the tail is asked for: no line is lost between
		if err != nil {
			return err
		}
		defer f.close()
		ends, err := watchEnds(ctx, net, p)
		if err != nil {
			return err
		}
		defer ends.close()
		tails, missing, err := p.tails(within, o.tail, silent)
		if err != nil {
			return err
		}
		if missing != nil {
			a.note("client: %v", missing) // it goes on, and may hear of them yet
		}
		v := a.newLogView(p, o)
		for _, t := range tails {
			if err := v.show(p.logRecords(t)...); err != nil {
				return err
			}
		}
		return errors.Join(a.printLive(ctx, t, v, f, ends, tails), v.rest(), missing)
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is a way to end it
	}
	return err
}

// printLive shows lines as they come: those of the first moment once it is clear which of them the
// tails showed already.
func (a *app) printLive(ctx context.Context, t target, v *logView, f *follower, ends *endWatch, tails []agent.LogTail) error {
	early, err := f.settle(ctx)
	if err != nil {
		return err
	}
	if err := v.show(fresh(early, tails)...); err != nil {
		return err
	}
	for {
		due := time.NewTimer(v.wait())
		select {
		case r := <-f.lines:
			err = v.show(r)
		case <-due.C:
			err = v.due()
		case which := <-ends.again:
			a.note("%s", which)
		case <-ends.over:
			err = errors.Join(v.show(f.waiting()...), v.rest())
			a.note("%s", endOf(t, ends.how))
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
			a.note("client: %d lines were lost: they came faster than they could be shown", n)
		}
	}
}

// logRecords are the lines of a tail.
func (p place) logRecords(t agent.LogTail) []logRecord {
	out := make([]logRecord, len(t.Lines))
	for i, l := range t.Lines {
		out[i] = logRecord{Rank: t.Rank, Point: pointOf(p.base, t.Rank), Stream: t.Stream, Line: l}
	}
	return out
}
