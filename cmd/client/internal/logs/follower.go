package logs

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

const (
	// followBuffer bounds the lines that wait for output. Further lines are dropped and counted.
	followBuffer = 8192
	// settleTime exceeds a host's time from a line in a file to its publication.
	settleTime = 250 * time.Millisecond
)

// logFollower receives new lines of a target's procs.
type logFollower struct {
	lines chan Record
	lost  atomic.Int64
	sub   *bus.Sub
}

// newLogFollower subscribes to the lines that match a pattern.
func newLogFollower(conn *mesh.Net, p target.Resolved, pattern string) (*logFollower, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	f := &logFollower{lines: make(chan Record, followBuffer)}
	space := conn.Proc().Space()
	sub, err := conn.Bus().Data().Subscribe(space.Logs(p.Procs.ID()), func(m bus.Msg) {
		s, err := space.Parse(m.Subject)
		if err != nil || !p.Region.Contains(int(s.Proc.Rank)) {
			return
		}
		r := Record{
			Rank: int(s.Proc.Rank), Point: inspect.Point(p.Base, int(s.Proc.Rank)), Stream: s.Stream,
			Time: time.Now().Truncate(time.Millisecond),
		}
		for line := range strings.SplitSeq(string(m.Data), "\n") {
			r.Line = strings.ToValidUTF8(line, "\uFFFD")
			if match.MatchString(r.Line) {
				f.enqueue(r)
			}
		}
	})
	f.sub = sub
	return f, err
}

func (f *logFollower) enqueue(r Record) {
	select {
	case f.lines <- r:
	default: // the pump must not wait for a terminal
		f.lost.Add(1)
	}
}

// drain returns the received lines.
func (f *logFollower) drain() (all []Record) {
	for {
		select {
		case r := <-f.lines:
			all = append(all, r)
		default:
			return all
		}
	}
}

func (f *logFollower) close() { _ = f.sub.Unsubscribe() } // the connection closes anyway

// collectEarly collects lines until everything printed before the call is published.
func (f *logFollower) collectEarly(ctx context.Context) (early []Record, err error) {
	after := time.NewTimer(settleTime)
	defer after.Stop()
	for len(early) < followBuffer {
		select {
		case r := <-f.lines:
			early = append(early, r)
		case <-after.C:
			return early, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return early, nil
}

// outputKey is one output of one rank.
type outputKey struct {
	rank int
	name string
}

// dropShown drops early lines already in the tails, stream by stream.
func dropShown(early []Record, tails []agent.LogTail) []Record {
	lines := map[outputKey][]string{}
	for _, r := range early {
		at := outputKey{r.Rank, r.Stream}
		lines[at] = append(lines[at], r.Line)
	}
	shown := map[outputKey]int{}
	for _, t := range tails {
		at := outputKey{t.Rank, t.Stream}
		shown[at] = len(lines[at]) - len(dedupeTail(t.Lines, lines[at]))
	}
	var out []Record
	for _, r := range early {
		if at := (outputKey{r.Rank, r.Stream}); shown[at] > 0 {
			shown[at]--
			continue
		}
		out = append(out, r)
	}
	return out
}
