package host

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/logfile"
)

const (
	// maxLogLines bounds the lines of an output in a reply.
	maxLogLines = 1 << 16
	// maxLogRequests bounds the requests for logs without a reply.
	maxLogRequests = 256
	// maxLogWait bounds how long a request waits for lines.
	maxLogWait = 30 * time.Second
	// maxLogsReply bounds the bytes of a Logs reply: half of the default maximum of a message.
	maxLogsReply = 512 << 10
	// lineOverhead is the encoded size of a line's length and time.
	lineOverhead = 5 + 9
)

// logRequests are the requests for logs without a reply.
type logRequests struct {
	byMesh map[string][]*logRequest
	count  int
	reads  semaphore // files are read for one request at a time
}

func newLogRequests() logRequests {
	return logRequests{byMesh: map[string][]*logRequest{}, reads: semaphore{limit: 1}}
}

func (l *logRequests) add(r *logRequest) {
	l.byMesh[r.ID] = append(l.byMesh[r.ID], r)
	l.count++
}

func (l *logRequests) remove(r *logRequest) {
	r.cancelTimer()
	left := slices.DeleteFunc(l.byMesh[r.ID], func(x *logRequest) bool { return x == r })
	l.byMesh[r.ID] = left
	if len(left) == 0 {
		delete(l.byMesh, r.ID)
	}
	l.count--
}

// logRequest is a request for logs.
type logRequest struct {
	agent.LogsRequest
	match       *regexp.Regexp
	positions   map[agent.LogPosition]int64 // the offsets in Follow, by the rest of the position
	answer      *actor.Deferred[[]agent.LogTail]
	cancelled   atomic.Bool // the caller no longer waits
	delayed     bool        // it has to wait before it reads
	reading     bool        // a task reads for it
	again       bool        // its mesh printed meanwhile
	last        bool        // the next read is the reply, with or without lines
	cancelTimer func()
}

// Logs replies with the last lines of the procs of a mesh, ended ones included, or with fewer if
// they exceed one message. With Follow it replies with the lines after known positions, once there
// are any. Files are read outside the turn.
func (a *hostAgent) Logs(ctx *actor.Context, q agent.LogsRequest) ([]agent.LogTail, error) {
	r := &logRequest{LogsRequest: q, last: true, cancelTimer: func() {}}
	var err error
	r.match, err = q.Pattern()
	if err == nil && q.Follow != nil {
		r.positions, err = offsetsOf(q.Follow.From)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot search logs: %w", err)
	}
	if a.logs.count >= maxLogRequests {
		return nil, fmt.Errorf("host %s: %d requests for logs are waiting already", a.id.Label(), maxLogRequests)
	}
	r.answer = actor.Defer[[]agent.LogTail](ctx)
	a.logs.add(r)
	if q.Follow == nil {
		a.readLogs(ctx, r)
		return nil, nil
	}
	limit := maxLogWait
	if by, ok := ctx.Deadline(); ok {
		limit = min(limit, agent.BeforeDeadline(time.Until(by)))
	}
	delay := max(0, min(q.Follow.Delay, limit))
	wait := max(0, min(q.Follow.Wait, limit-delay))
	r.answer.OnCancel(func() {
		r.cancelled.Store(true)
		a.printed.note(q.ID)
	})
	r.delayed = true
	r.cancelTimer = ctx.After(delay, func(ctx *actor.Context) {
		r.delayed = false
		r.last = wait == 0 || q.Follow.Tail
		if !r.last {
			r.cancelTimer = ctx.After(wait, func(ctx *actor.Context) {
				r.last = true
				a.readLogs(ctx, r)
			})
		}
		a.readLogs(ctx, r)
	})
	return nil, nil
}

// offsetsOf returns the offsets of positions, by the rest of the position.
func offsetsOf(from []agent.LogPosition) (map[agent.LogPosition]int64, error) {
	all := map[agent.LogPosition]int64{}
	for _, at := range from {
		offset := at.Offset
		if offset < 0 {
			return nil, fmt.Errorf("offset %d of rank %d: want 0 or more", offset, at.Rank)
		}
		at.Offset = 0
		all[at] = offset
	}
	return all, nil
}

// readLogs reads for a request, as a task. The task replies if there are lines, or if this is the
// last read; otherwise the request waits for its mesh to print.
func (a *hostAgent) readLogs(ctx *actor.Context, r *logRequest) {
	if r.reading {
		r.again = true
		return
	}
	r.reading = true
	r.again = false
	sources := a.logSources(r)
	last := r.last
	a.logs.reads.acquire(ctx, func(ctx *actor.Context) {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			tails := r.read(work, sources)
			done := last || len(tails) > 0
			if done {
				r.answer.Reply(tails, nil)
			}
			return func(ctx *actor.Context) {
				a.logs.reads.release(ctx)
				r.reading = false
				if done {
					a.logs.remove(r)
				} else if r.again {
					a.readLogs(ctx, r)
				}
			}
		})
	})
}

// awaitPrinted reads for the waiting requests of meshes that print.
func (a *hostAgent) awaitPrinted(ctx *actor.Context) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		select {
		case <-a.printed.wake:
		case <-work.Done():
			return nil
		}
		return func(ctx *actor.Context) {
			for mesh := range a.printed.take() {
				for _, r := range slices.Clone(a.logs.byMesh[mesh]) {
					if r.cancelled.Load() && !r.reading {
						r.answer.Reply(nil, context.Canceled)
						a.logs.remove(r)
					} else if !r.delayed {
						a.readLogs(ctx, r)
					}
				}
			}
			a.awaitPrinted(ctx)
		}
	})
}

// answerLogs replies to all requests for logs when the last proc of an ending host has ended.
func (a *hostAgent) answerLogs() {
	for _, all := range a.logs.byMesh {
		for _, r := range all {
			r.answer.Reply(r.read(context.Background(), a.logSources(r)), nil)
		}
	}
}

// printedMeshes are the meshes with output since the last look. The functions may be called
// concurrently.
type printedMeshes struct {
	mu   sync.Mutex
	ids  map[string]bool
	wake chan struct{} // receives a value after the first of them
}

func newPrintedMeshes() *printedMeshes {
	return &printedMeshes{ids: map[string]bool{}, wake: make(chan struct{}, 1)}
}

func (p *printedMeshes) note(mesh string) {
	p.mu.Lock()
	p.ids[mesh] = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *printedMeshes) take() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := p.ids
	p.ids = map[string]bool{}
	return ids
}

// logSource is an output of a proc.
type logSource struct {
	at     agent.LogPosition // without an offset
	newest bool              // of the newest proc of its rank
	ended  <-chan struct{}   // closed when its proc has ended
	file   logfile.File
	marks  *logfile.Marks
}

// logSources returns the outputs for a request, by rank and generation.
func (a *hostAgent) logSources(r *logRequest) (all []logSource) {
	of := a.procs[r.ID]
	if of == nil {
		return nil
	}
	for c, newest := range of.withOutput() {
		if r.Region != nil && !r.Region.Contains(c.rank) || r.Follow == nil && !newest {
			continue
		}
		for s, file := range c.process.Output() {
			x := logSource{
				at:     agent.LogPosition{Rank: c.rank, Gen: int(c.id.Gen), Stream: logfile.Stream(s).String()},
				newest: newest, ended: c.process.Done(), file: file, marks: &logfile.Marks{},
			}
			if c.output != nil {
				x.marks = &c.output.marks[s]
			}
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(x, y logSource) int {
		return cmp.Or(cmp.Compare(x.at.Rank, y.at.Rank), cmp.Compare(x.at.Gen, y.at.Gen))
	})
	return all
}

// read reads the outputs for a request.
func (r *logRequest) read(work context.Context, sources []logSource) (tails []agent.LogTail) {
	if r.Follow == nil {
		for _, s := range sources {
			if work.Err() == nil {
				tails = append(tails, s.tail(r.selection(), maxLogsReply/len(sources)))
			}
		}
		return tails
	}
	room := maxLogsReply
	if r.Follow.Bytes > 0 {
		room = min(room, r.Follow.Bytes)
	}
	for i, s := range sources {
		if work.Err() != nil {
			break
		}
		t, news := r.follow(s, room/(len(sources)-i))
		if !news {
			continue
		}
		for _, line := range t.Lines {
			room -= len(line) + lineOverhead
		}
		tails = append(tails, t)
		if room <= 0 && i+1 < len(sources) {
			tails[len(tails)-1].More = true
			break
		}
	}
	return tails
}

// selection selects the last lines of each output.
func (r *logRequest) selection() logfile.Selection {
	return logfile.Selection{Lines: min(r.Lines, maxLogLines), Since: r.Since, Match: r.match}
}

// follow returns the lines of an output after its position.
func (r *logRequest) follow(s logSource, budget int) (t agent.LogTail, news bool) {
	from, known := r.positions[s.at]
	switch {
	case s.file.Err != nil:
		if known {
			return t, false
		}
		return s.unkept(), true
	case !known && r.Follow.Tail && !s.newest:
		return s.part(s.file.Select(logfile.Selection{Whole: true}, s.marks)), true
	case !known && r.Follow.Tail:
		q := r.selection()
		q.Whole = true
		return s.tail(q, budget), true
	case !known:
		from = -1
	}
	ended := false
	select {
	case <-s.ended:
		ended = true
	default:
	}
	p := s.file.Read(logfile.Reading{
		From: from, Match: r.match, Bytes: budget, PerLine: lineOverhead, Ended: ended,
	}, s.marks)
	return s.part(p), p.Next != p.Start
}

// tail returns the last selected lines within a byte budget, encoding included.
func (s logSource) tail(q logfile.Selection, budget int) agent.LogTail {
	if s.file.Err != nil {
		return s.unkept()
	}
	p := s.file.Select(q, s.marks)
	first := len(p.Lines)
	for first > 0 && budget >= len(p.Lines[first-1].Text)+lineOverhead {
		first--
		budget -= len(p.Lines[first].Text) + lineOverhead
	}
	p.Lines = p.Lines[first:]
	return s.part(p)
}

// unkept is the notice in place of an output without a file.
func (s logSource) unkept() agent.LogTail {
	notice := "[castnet] the output of this proc is not kept: " + firstLine(s.file.Err)
	return agent.LogTail{Rank: s.at.Rank, Gen: s.at.Gen, Stream: s.at.Stream, Lines: []string{notice}}
}

// part returns a part of the output.
func (s logSource) part(p logfile.Part) agent.LogTail {
	t := agent.LogTail{
		Rank: s.at.Rank, Gen: s.at.Gen, Stream: s.at.Stream, Next: p.Next, More: p.More,
		DroppedLines: p.DroppedLines, DroppedBytes: p.DroppedBytes,
	}
	for _, l := range p.Lines {
		t.Lines = append(t.Lines, l.Text)
		at := int64(0)
		if !l.At.IsZero() {
			at = l.At.UnixMilli()
		}
		t.Times = append(t.Times, at)
	}
	return t
}
