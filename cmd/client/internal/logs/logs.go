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
func ShowTails(ctx context.Context, out *output.Printer, l target.Located, o Options) error {
	tails, missing, err := tailLogs(ctx, l, o.LogQuery)
	if err != nil {
		return err
	}
	noteLogTrouble(out, l)
	lines := logLines(l.Resolved, tails)
	v := logView{out, o.Timestamps}
	if out.Format == output.JSON {
		records := []Record{}
		for _, l := range lines {
			records = append(records, record(l))
		}
		return errors.Join(out.WriteJSON(records), missing)
	}
	if len(lines) == 0 && missing == nil {
		out.Notef("%s", o.describeNothing())
	}
	if o.mergesLines(out) {
		lines = mesh.FoldLogs(l.Base, lines)
	}
	return errors.Join(v.show(lines...), missing)
}

// FollowLogs prints the output so far, then new output.
func FollowLogs(ctx context.Context, a *app.App, t target.Target, o Options) error {
	err := a.WithNet(ctx, func(conn *mesh.Net) error {
		within, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
		defer cancel()
		l, err := t.ResolveWithEnded(within, conn)
		if err != nil {
			return err
		}
		noteLogTrouble(a.Printer, l)
		ends := watchEnds(ctx, conn, l.Resolved)
		defer ends.close()
		v := logView{a.Printer, o.Timestamps}
		stream := mesh.LogOptions{
			LogQuery: o.LogQuery, FoldWindow: -1, Handle: func(l mesh.LogLine) error { return v.show(l) },
		}
		if o.mergesLines(a.Printer) {
			stream.FoldWindow = o.Window
		}
		if o.Lines == 0 {
			stream.Lines = -1
		}
		s, err := l.Procs.StreamLogs(ctx, stream)
		if err != nil {
			return err
		}
		missing, err := flushFirst(within, s, l)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if missing != nil {
			a.Notef("castnet: %v", missing) // continue; their lines may still arrive
		}
		return errors.Join(followStream(ctx, a.Printer, t, s, ends), s.Close(), missing)
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is a normal end
	}
	return err
}

// followStream waits until all ranks have ended and their last lines are printed.
func followStream(
	ctx context.Context, out *output.Printer, t target.Target, s *mesh.LogStream, ends *endWatch,
) error {
	for {
		select {
		case which := <-ends.again:
			out.Notef("%s", which)
		case <-ends.over:
			last, cancel := context.WithTimeout(ctx, silentTimeout)
			_ = s.Flush(last) // a host may have left with its procs
			cancel()
			out.Notef("%s", endSummary(t, ends.how))
			return nil
		case <-s.Done():
			return ctx.Err()
		case <-ends.net.Bus().Done():
			return ends.net.Bus().Err()
		}
	}
}

// flushFirst prints the lines so far. missing names hosts without an answer.
func flushFirst(ctx context.Context, s *mesh.LogStream, l target.Located) (missing, err error) {
	ctx, cancel := withoutSilent(ctx, l)
	defer cancel()
	return missingHosts(s.Flush(ctx), l)
}

// noteLogTrouble says that hosts may lose output.
func noteLogTrouble(out *output.Printer, l target.Located) {
	if trouble := l.LogTrouble(); trouble != "" {
		out.Notef("output may be lost on %s", trouble)
	}
}

// logLines returns the lines of tails.
func logLines(p target.Resolved, tails []agent.LogTail) (lines []mesh.LogLine) {
	for _, t := range tails {
		for i, text := range t.Lines {
			lines = append(lines, mesh.LogLine{
				Rank: t.Rank, Ranks: inspect.Point(p.Base, t.Rank), Count: 1, Stream: t.Stream, Time: t.Time(i),
				Text: text,
			})
		}
	}
	return lines
}

// record returns the JSON form of a line.
func record(l mesh.LogLine) Record {
	return Record{Rank: l.Rank, Point: l.Ranks, Stream: l.Stream, Line: l.Text, Time: l.Time}
}
