package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
)

const (
	// followRoom is how many lines may wait to be shown; more are dropped, and counted.
	followRoom = 8192
	// settleWithin is longer than hosts take from a line in a file to its publication.
	settleWithin = 250 * time.Millisecond
)

// follower receives the lines that the procs of a place print from now on.
type follower struct {
	lines chan logRecord
	lost  atomic.Int64
	sub   *bus.Sub
}

func newFollower(net *mesh.Net, p place) (*follower, error) {
	f := &follower{lines: make(chan logRecord, followRoom)}
	space := net.Proc().Space()
	sub, err := net.Bus().Data().Subscribe(space.Logs(p.procs.ID()), func(m bus.Msg) {
		s, err := space.Parse(m.Subject)
		if err != nil || !p.region.Contains(int(s.Proc.Rank)) {
			return
		}
		r := logRecord{Rank: int(s.Proc.Rank), Point: pointOf(p.base, int(s.Proc.Rank)), Stream: s.Stream}
		for line := range strings.SplitSeq(string(m.Data), "\n") {
			r.Line = strings.ToValidUTF8(line, "\uFFFD")
			f.take(r)
		}
	})
	f.sub = sub
	return f, err
}

func (f *follower) take(r logRecord) {
	select {
	case f.lines <- r:
	default: // the pump must not wait for a terminal
		f.lost.Add(1)
	}
}

// waiting is what has come and was not taken yet.
func (f *follower) waiting() (all []logRecord) {
	for {
		select {
		case r := <-f.lines:
			all = append(all, r)
		default:
			return all
		}
	}
}

func (f *follower) close() { _ = f.sub.Unsubscribe() } // the connection closes anyway

// settle collects what comes until everything that was printed before the call has been published.
func (f *follower) settle(ctx context.Context) (early []logRecord, err error) {
	after := time.NewTimer(settleWithin)
	defer after.Stop()
	for len(early) < followRoom {
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

// stream is one output of one rank.
type stream struct {
	rank int
	name string
}

// fresh drops the early lines that the tails show already, stream by stream.
func fresh(early []logRecord, tails []agent.LogTail) []logRecord {
	lines := map[stream][]string{}
	for _, r := range early {
		at := stream{r.Rank, r.Stream}
		lines[at] = append(lines[at], r.Line)
	}
	shown := map[stream]int{}
	for _, t := range tails {
		at := stream{t.Rank, t.Stream}
		shown[at] = len(lines[at]) - len(seam(t.Lines, lines[at]))
	}
	var out []logRecord
	for _, r := range early {
		if at := (stream{r.Rank, r.Stream}); shown[at] > 0 {
			shown[at]--
			continue
		}
		out = append(out, r)
	}
	return out
}
