package main

import (
	"context"
	"errors"
	"fmt"

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

func (a *app) logsCommand() *cobra.Command {
	var (
		tail   int
		follow bool
	)
	c := &cobra.Command{
		Use:   "logs MESH[region]",
		Short: "Show what the procs of a mesh print",
		Long: `Show the last lines each proc has printed to stdout and stderr, with its coordinates.
With --follow, go on with what they print from then on, until Ctrl-C.

JSON: rank, point, stream, line; with --follow, one line each.`,
		Example:           "  client logs demo\n  client logs 'demo[host=0]' -f --tail 0",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(meshNames),
	}
	c.Flags().IntVar(&tail, "tail", 20, "last `LINES` of each stream to begin with")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is printed from now on")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := parseTarget(args[0])
		if err != nil {
			return err
		}
		if tail < 0 {
			return cli.Usagef("--tail is %d, want 0 or more", tail)
		}
		if follow {
			return a.followLogs(c.Context(), t, tail)
		}
		return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			p, err := t.find(ctx, net)
			if err != nil {
				return err
			}
			return a.lastLogs(ctx, p, tail)
		})
	}
	return c
}

// lastLogs shows what was printed so far.
func (a *app) lastLogs(ctx context.Context, p place, tail int) error {
	tails, err := p.procs.Logs(ctx, tail)
	if err != nil {
		return err
	}
	records := []logRecord{}
	for _, t := range tails {
		records = append(records, p.logRecords(t)...)
	}
	if a.output == asJSON {
		return a.document(records)
	}
	if len(records) == 0 {
		a.note("nothing was printed so far")
	}
	return a.printLogs(records)
}

// followLogs shows what was printed so far, and then what is printed from now on.
func (a *app) followLogs(ctx context.Context, t target, tail int) error {
	err := a.connected(ctx, func(net *mesh.Net) error {
		within, cancel := context.WithTimeout(ctx, a.conn.Timeout)
		defer cancel()
		p, err := t.find(within, net)
		if err != nil {
			return err
		}
		f, err := newFollower(net, p) // before the tail is asked for: no line is lost between
		if err != nil {
			return err
		}
		defer f.close()
		tails, err := p.procs.Logs(within, tail)
		if err != nil {
			return err
		}
		for _, t := range tails {
			if err := a.printLogs(p.logRecords(t)); err != nil {
				return err
			}
		}
		return a.printLive(ctx, net, f, tails)
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is how following ends
	}
	return err
}

// printLive shows lines as they come: those of the first moment once it is clear which of them the
// tails showed already.
func (a *app) printLive(ctx context.Context, net *mesh.Net, f *follower, tails []agent.LogTail) error {
	early, err := f.settle(ctx)
	if err != nil {
		return err
	}
	if err := a.printLogs(fresh(early, tails)); err != nil {
		return err
	}
	for {
		select {
		case r := <-f.lines:
			if err := a.printLogs([]logRecord{r}); err != nil {
				return err
			}
		case <-net.Bus().Done():
			return net.Bus().Err()
		case <-ctx.Done():
			return ctx.Err()
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

// printLogs shows lines, each with its rank; what went to stderr is told apart by colour.
func (a *app) printLogs(records []logRecord) (err error) {
	for _, r := range records {
		if a.output != asTable {
			err = errors.Join(err, a.line(r))
			continue
		}
		line := r.Line
		if r.Stream != "stdout" {
			line = a.paint(yellow, line)
		}
		_, werr := fmt.Fprintf(a.out, "%s %s\n", a.paint(rankColour(r.Rank), "["+r.Point+"]"), line)
		err = errors.Join(err, werr)
	}
	return err
}

// rankColour tells neighbouring ranks apart.
func rankColour(rank int) colour {
	return [...]colour{cyan, green, magenta, blue}[rank%4]
}
