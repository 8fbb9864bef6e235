package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// LogQuery selects log lines: the last ones of each output. The hosts search, so a query costs one
// message to each, and one from it.
type LogQuery struct {
	Lines int       // of each output, at most; 0: none
	Since time.Time // only lines from then on; zero: all
	Grep  string    // only lines that match this regular expression; "": all
}

// Logs returns the last lines of each proc's output in the region, by base rank. It asks all hosts
// at once. A *HostsError names the hosts that do not answer within the deadline (default 30 s); the
// lines of the other hosts are returned, too.
func (p ProcMesh) Logs(ctx context.Context, q LogQuery) ([]agent.LogTail, error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	hosts := hostsOf(p)
	logs := func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.LogTail, error) {
		return agent.Logs.Call(ctx, a, p.logsRequest(q))
	}
	asked, errs := eachHost(ctx, hosts, logs)
	out := slices.Concat(asked...)
	slices.SortStableFunc(out, func(a, b agent.LogTail) int { return cmp.Compare(a.Rank, b.Rank) })
	if err := hosts.unreachable(errs); err != nil {
		return out, fmt.Errorf("logs: %w", err)
	}
	return out, nil
}

func (p ProcMesh) logsRequest(q LogQuery) agent.LogsRequest {
	r := agent.LogsRequest{ID: p.desc.ID.String(), Lines: max(0, q.Lines), Since: q.Since, Grep: q.Grep}
	if p.region.NumRanks() < p.desc.Extent.NumRanks() {
		r.Region = &p.region
	}
	return r
}

// LogLine is an output line of a proc, an equal line of several procs, or news of a host or the
// bus.
type LogLine struct {
	Rank    int       // in the extent of the mesh, of several the first; -1: news of the host, or of the bus
	Ranks   string    // all of them, as in shape.Select: host=0,gpu=3, or * for the whole mesh
	Count   int       // of ranks with the line
	Similar bool      // their lines differ in numbers, and Text has the ranges
	Host    string    // label of the host of Rank
	Stream  string    // stdout or stderr
	Time    time.Time // when the host read it; zero: unknown
	Text    string
}

// String returns the line with its ranks, such as [host=0,gpu=3] text, or [*] 8× text.
func (l LogLine) String() string {
	who := l.Ranks
	if l.Stream != "stdout" {
		who += " " + l.Stream
	}
	if count := l.Multiplicity(); count != "" {
		return fmt.Sprintf("[%s] %s %s", who, count, l.Text)
	}
	return fmt.Sprintf("[%s] %s", who, l.Text)
}

// Multiplicity describes the number of equal lines; "": it is the only one.
func (l LogLine) Multiplicity() string {
	if l.Count <= 1 {
		return ""
	}
	if l.Similar {
		return fmt.Sprintf("[%d similar lines]", l.Count)
	}
	return fmt.Sprintf("%d×", l.Count)
}

// LogOptions configure a LogStream. The zero value prints all lines of all procs to the stderr of
// this program, and folds equal lines.
type LogOptions struct {
	// LogQuery selects the lines to begin with, and Grep also those that follow. Without Lines and
	// Since the stream begins with the first line of each proc; with fewer than 0 Lines it has new
	// lines only.
	LogQuery
	// FoldWindow is the longest wait of a line for equal lines of other ranks. They become one line.
	// Most lines wait for a fifth of it. 0: DefaultFoldWindow; less: no folding.
	FoldWindow time.Duration
	// Handle gets each line, one at a time. Its error ends the stream. While it blocks, the hosts
	// keep at most 8 MiB of each output for it. nil: lines go to stderr.
	Handle func(LogLine) error
}

// DefaultFoldWindow is the default of LogOptions.FoldWindow.
const DefaultFoldWindow = 3 * time.Second

const (
	// logWait bounds how long a request waits at a host for lines.
	logWait = 10 * time.Second
	// logReplyTimeout is the further time for the reply.
	logReplyTimeout = 5 * time.Second
	// minLogDelay and logDelayPerHost pace the requests to each host, up to maxLogDelay: one reply
	// then has many lines.
	minLogDelay     = 25 * time.Millisecond
	logDelayPerHost = time.Millisecond
	maxLogDelay     = time.Second
	// logMemory bounds the lines that the hosts send at the same time, but for a first line each.
	logMemory = 32 << 20
	// logRetryInterval is the pause between requests to a host without answers, and between looks
	// for new hosts of the mesh.
	logRetryInterval = time.Second
	// silenceSaid is the time after which a stream says that a host does not answer. A host known to
	// be dead is said at once.
	silenceSaid = 5 * time.Second
	// busSilenceSaid is likewise for the bus, after the watcher of the hosts has noticed.
	busSilenceSaid = 2 * time.Second
	// lastLinesTimeout bounds the wait of Net.Close for the last lines of a stream.
	lastLinesTimeout = 2 * time.Second
)

var errStreamClosed = errors.New("the stream of logs is closed")

// LogStream passes the output of the procs of a mesh to this program (MESH-25).
type LogStream struct {
	procs     ProcMesh
	options   LogOptions
	watcher   *presence.Watcher // of the hosts
	fold      *logFold          // of deliver
	failed    bool              // likewise: Handle has returned an error
	batches   chan []LogLine
	flushes   chan chan struct{} // closed when all lines before were handled
	ctx       context.Context
	cancel    context.CancelCauseFunc
	tasks     sync.WaitGroup // but for deliver
	delivered chan struct{}  // closed when deliver has returned

	mu      sync.Mutex // guards the fields below
	feeds   map[subjects.HostID]*logFeed
	present ProcMesh // procs, on the newest known revision of the mesh
}

// StreamLogs passes the output of the region's procs to o.Handle as they write it, until ctx ends
// or Close. Restarted ranks continue, on other hosts too. A stream of the whole mesh follows Grow
// and Shrink. Close of the Net first waits briefly for the last lines.
func (p ProcMesh) StreamLogs(ctx context.Context, o LogOptions) (*LogStream, error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	if _, err := p.logsRequest(o.LogQuery).Pattern(); err != nil {
		return nil, fmt.Errorf("cannot stream logs: %w", err)
	}
	if o.Handle == nil {
		o.Handle = func(l LogLine) error {
			_, err := fmt.Fprintln(os.Stderr, l)
			return err
		}
	}
	watcher, err := p.net.controllers.hostWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot stream logs: %w", err)
	}
	s := &LogStream{
		procs: p, options: o, watcher: watcher, batches: make(chan []LogLine), flushes: make(chan chan struct{}),
		delivered: make(chan struct{}), feeds: map[subjects.HostID]*logFeed{},
	}
	s.fold = newLogFold(p.desc.Extent, p.region.NumRanks(), cmp.Or(o.FoldWindow, DefaultFoldWindow))
	tail := o.Lines != 0 || !o.Since.IsZero()
	if o.Lines == 0 && tail {
		s.options.Lines = math.MaxInt32
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if err := p.net.logStreams.add(s); err != nil {
		s.cancel(err)
		return nil, fmt.Errorf("cannot stream logs: %w", err)
	}
	s.addFeeds(tail)
	s.tasks.Go(s.followHosts)
	go s.deliver()
	return s, nil
}

// Close ends the stream and waits for Handle, which must not call it. It returns the error of
// Handle that ended the stream earlier.
func (s *LogStream) Close() error {
	s.cancel(errStreamClosed)
	<-s.delivered
	if err := context.Cause(s.ctx); !errors.Is(err, errStreamClosed) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Done is closed when the stream has ended.
func (s *LogStream) Done() <-chan struct{} { return s.delivered }

// Flush returns once Handle has had every line that a proc of the region wrote before the call. A
// *HostsError names the hosts that do not answer within the deadline (default 30 s), with their
// ranks; the lines of the others were handled.
func (s *LogStream) Flush(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.addFeeds(false)
	s.mu.Lock()
	feeds := slices.Collect(maps.Values(s.feeds))
	s.mu.Unlock()
	slices.SortFunc(feeds, func(a, b *logFeed) int { return cmp.Compare(a.host.Label(), b.host.Label()) })
	silent := s.flushFeeds(ctx, feeds)
	handled := make(chan struct{})
	select {
	case s.flushes <- handled:
	case <-ctx.Done():
	}
	select {
	case <-handled:
	case <-ctx.Done():
		return fmt.Errorf("cannot flush logs: Handle has not returned: %w", cmp.Or(context.Cause(s.ctx), ctx.Err()))
	}
	if silent != nil {
		return fmt.Errorf("cannot flush logs: %w", silent)
	}
	return nil
}

// flushFeeds asks all hosts for their lines, until shortly before the deadline. The error is a
// *HostsError.
func (s *LogStream) flushFeeds(ctx context.Context, feeds []*logFeed) error {
	if by, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, agent.BeforeDeadline(time.Until(by)))
		defer cancel()
	}
	errs := make([]error, len(feeds))
	fanout.Each(maxConcurrentAsks, feeds, func(i int, f *logFeed) { errs[i] = f.flush(ctx) })
	e := &HostsError{Mesh: s.procs.desc.ID.Label(), Hosts: len(feeds)}
	for i, f := range feeds {
		if ranks := s.ranksOn(f.host); errs[i] != nil && ranks != "" {
			err := fmt.Errorf("ranks %s: %w", ranks, errs[i])
			e.Failed = append(e.Failed, HostError{f.host, err})
		}
	}
	if len(e.Failed) == 0 {
		return nil
	}
	return e
}

// followHosts adds the hosts that take ranks of the mesh. It says when the bus is silent, and when
// it answers again.
func (s *LogStream) followHosts() {
	said := false
	look := time.NewTicker(logRetryInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			silence := s.watcher.BusSilence()
			if silence == 0 { // else their search would wait for the bus
				s.addFeeds(false)
			}
			news := ""
			if !said && silence >= busSilenceSaid {
				news = "the bus does not answer"
			} else if said && silence == 0 {
				news = "the bus answers again"
			}
			if news != "" {
				said = !said
				_ = s.send(s.ctx, []LogLine{newsLine(news)}) // an ended stream says nothing
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// addFeeds adds a feed for each new host of the region. tail: it begins with the last lines.
func (s *LogStream) addFeeds(tail bool) {
	p, hosts := s.hosts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.present = p
	for h := range hosts {
		if s.feeds[h] == nil {
			f := &logFeed{stream: s, host: h, tail: tail, turn: make(chan struct{}, 1)}
			f.positions = map[agent.LogPosition]int64{}
			f.alive, f.end = context.WithCancelCause(context.Background())
			s.feeds[h] = f
			s.tasks.Go(f.run)
		}
	}
}

// hosts returns the region on the newest known revision of the mesh, and its ranks on each host.
func (s *LogStream) hosts() (p ProcMesh, on map[subjects.HostID][]int) {
	p = resolved(s.procs)
	on = map[subjects.HostID][]int{}
	for _, base := range p.region.Ranks() {
		if base >= p.desc.Extent.NumRanks() {
			continue // a Shrink has removed it
		}
		if h := p.rankHost(base); h.IsValid() {
			on[h] = append(on[h], base)
		}
	}
	return p, on
}

// ranksOn describes the ranks of the region on a host; "": none.
func (s *LogStream) ranksOn(h subjects.HostID) string {
	p, on := s.hosts()
	if len(on[h]) == 0 {
		return ""
	}
	return shape.Describe(p.desc.Extent, on[h])
}

// shape returns the extent of the mesh, and the number of ranks in the region.
func (s *LogStream) shape() (shape.Extent, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present.desc.Extent, s.present.region.NumRanks()
}

// deliver passes the lines of all hosts to Handle, until the stream ends.
func (s *LogStream) deliver() {
	defer close(s.delivered)
	defer s.procs.net.logStreams.remove(s)
	defer s.awaitTasks()
	for {
		s.fold.extent, s.fold.ranks = s.shape()
		due := time.NewTimer(s.fold.untilReady(time.Now()))
		select {
		case lines := <-s.batches:
			s.handle(s.fold.step(lines, time.Now()))
		case <-due.C:
			s.handle(s.fold.step(nil, time.Now()))
		case handled := <-s.flushes:
			s.fold.extent, s.fold.ranks = s.shape() // the flush may have learned of a change
			s.handle(s.fold.flush())
			close(handled)
		case <-s.ctx.Done():
			s.handle(s.fold.flush())
			return
		}
		due.Stop()
	}
}

// newsLine is a line about the hosts of the stream.
func newsLine(text string) LogLine {
	return LogLine{Rank: -1, Count: 1, Stream: "stderr", Time: time.Now(), Text: "[castnet] " + text}
}

// awaitTasks waits for the tasks of an ended stream. None starts once the lock was held here.
func (s *LogStream) awaitTasks() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // see above
	s.tasks.Wait()
}

// handle passes lines to Handle, until its first error.
func (s *LogStream) handle(lines []LogLine) {
	for _, l := range lines {
		if s.failed {
			return
		}
		if err := s.options.Handle(l); err != nil {
			s.failed = true
			s.cancel(err)
		}
	}
}

// send passes lines to deliver.
func (s *LogStream) send(ctx context.Context, lines []LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	select {
	case s.batches <- lines:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logFeed follows the outputs on one host.
type logFeed struct {
	stream *LogStream
	host   subjects.HostID
	turn   chan struct{} // held by the one that uses the fields below

	tail      bool                        // the first request asks for the last lines
	positions map[agent.LogPosition]int64 // the offsets of the next lines, by the rest of the position

	mu    sync.Mutex // guards alive, end and left
	alive context.Context
	end   context.CancelCauseFunc // ends alive when the host is known to be dead
	left  bool                    // in good order
}

// run asks the host for lines, until the stream ends or the host has no rank of the mesh any more.
func (f *logFeed) run() {
	ctx := f.stream.ctx
	defer f.stream.watcher.Watch([]subjects.HostID{f.host}, f.onPresence)()
	var since time.Time // of the failures while it can be heard; zero: it answers
	said := false
	for {
		_, err := f.pull(ctx, agent.LogFollow{Delay: f.stream.delay(), Wait: logWait})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if said {
				f.say(ctx, "host "+f.host.Label()+" answers again")
			}
			since = time.Time{}
			said = false
			continue
		}
		if since.IsZero() || f.stream.watcher.BusSilence() > 0 {
			since = time.Now()
		}
		if !f.hasLeft() && !said && (errors.Is(err, errHostDead) || time.Since(since) >= silenceSaid) {
			said = true
			f.say(ctx, fmt.Sprintf("host %s does not answer: %v", f.host.Label(), err))
		}
		if f.stream.drop(f) {
			return
		}
		select {
		case <-time.After(logRetryInterval):
		case <-ctx.Done():
			return
		}
	}
}

// drop removes the feed of a host without ranks of the region.
func (s *LogStream) drop(f *logFeed) bool {
	if s.ranksOn(f.host) != "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, f.host)
	return true
}

// delay is the pace of the requests to each host.
func (s *LogStream) delay() time.Duration {
	return min(max(minLogDelay, time.Duration(s.count())*logDelayPerHost), maxLogDelay)
}

func (s *LogStream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.feeds)
}

func (f *logFeed) onPresence(c presence.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = c.Graceful
	if c.State == presence.Dead {
		f.end(fmt.Errorf("%w: %s", errHostDead, c.Reason))
	} else if f.alive.Err() != nil {
		f.alive, f.end = context.WithCancelCause(context.Background())
	}
}

func (f *logFeed) hasLeft() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

// say adds news of the host to the stream.
func (f *logFeed) say(ctx context.Context, text string) {
	l := newsLine(text)
	l.Ranks = f.stream.ranksOn(f.host)
	l.Host = f.host.Label()
	_ = f.stream.send(ctx, []LogLine{l}) // an ended stream says nothing
}

// flush asks for lines until there are no more, or ctx ends.
func (f *logFeed) flush(ctx context.Context) error {
	for {
		more, err := f.pull(ctx, agent.LogFollow{})
		if !more || err != nil {
			return err
		}
	}
}

// pull asks the host once, and passes the lines on. Several pulls may be under way; the reply to a
// request from outdated positions is dropped. more: the host has further lines.
func (f *logFeed) pull(ctx context.Context, follow agent.LogFollow) (more bool, err error) {
	if err := f.acquire(ctx); err != nil {
		return false, err
	}
	s := f.stream
	q := s.procs.logsRequest(s.options.LogQuery)
	q.Follow = &follow
	follow.Tail = f.tail
	follow.Bytes = logMemory / max(1, s.count())
	from := maps.Clone(f.positions)
	f.release()
	for at, offset := range from {
		at.Offset = offset
		follow.From = append(follow.From, at)
	}
	f.mu.Lock()
	dead := deathContexts{f.host: f.alive}
	f.mu.Unlock()
	ref := agent.Of(f.host.Proc()).Via(s.procs.net.proc)
	tails, err := askAlive(ctx, dead, ref, func(ctx context.Context) ([]agent.LogTail, error) {
		if follow.Wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, follow.Delay+follow.Wait+logReplyTimeout)
			defer cancel()
		}
		return agent.Logs.Call(ctx, ref, q)
	})
	if err != nil {
		return false, err
	}
	if err := f.acquire(ctx); err != nil {
		return false, err
	}
	defer f.release()
	if f.tail != follow.Tail {
		return true, nil
	}
	var lines []timedLine
	var fresh []agent.LogTail
	for _, t := range tails {
		at := t.Position()
		at.Offset = 0
		was, knew := from[at]
		is, known := f.positions[at]
		more = more || t.More
		if was != is || knew != known {
			more = true
			continue
		}
		fresh = append(fresh, t)
		lines = append(lines, f.linesOf(t)...)
	}
	if err := s.send(ctx, inTime(lines)); err != nil {
		return false, err
	}
	f.tail = false
	for _, t := range fresh {
		at := t.Position()
		at.Offset = 0
		f.positions[at] = t.Next
	}
	return more, nil
}

func (f *logFeed) acquire(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *logFeed) release() { <-f.turn }

// timedLine is a line with a time no earlier than that of the line before it in its output.
type timedLine struct {
	LogLine
	at time.Time
}

// inTime sorts the lines of several outputs by their times. Each output keeps its order.
func inTime(lines []timedLine) (out []LogLine) {
	slices.SortStableFunc(lines, func(a, b timedLine) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		out = append(out, l.LogLine)
	}
	return out
}

// linesOf returns the lines of a part of an output, and first the number of lines missing there.
func (f *logFeed) linesOf(t agent.LogTail) (lines []timedLine) {
	extent, _ := f.stream.shape()
	l := timedLine{LogLine: LogLine{
		Rank: t.Rank, Ranks: shape.DescribeRank(extentWith(extent, t.Rank), t.Rank), Count: 1,
		Host: f.host.Label(), Stream: t.Stream,
	}}
	add := func(text string, at time.Time) {
		l.Text = text
		l.Time = at
		if at.After(l.at) { // the wall clock may step back
			l.at = at
		}
		lines = append(lines, l)
	}
	if t.DroppedLines > 0 || t.DroppedBytes > 0 {
		add("[castnet] "+describeDropped(t)+" dropped by host "+l.Host, t.Time(0))
	}
	for i, text := range t.Lines {
		add(text, t.Time(i))
	}
	return lines
}

// describeDropped describes dropped output.
func describeDropped(t agent.LogTail) string {
	lines := fmt.Sprintf("%d lines", t.DroppedLines)
	if t.DroppedBytes == 0 {
		return lines
	}
	return fmt.Sprintf("%d bytes and %s", t.DroppedBytes, lines)
}

// logStreams are the open streams of a Net.
type logStreams struct {
	mu     sync.Mutex
	open   map[*LogStream]struct{}
	closed bool
}

func (l *logStreams) add(s *LogStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errNetClosed
	}
	if l.open == nil {
		l.open = map[*LogStream]struct{}{}
	}
	l.open[s] = struct{}{}
	return nil
}

func (l *logStreams) remove(s *LogStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// close closes all streams, once they have the last lines or after a moment.
func (l *logStreams) close(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	all := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lastLinesTimeout)
	defer cancel()
	fanout.Each(maxConcurrentAsks, all, func(_ int, s *LogStream) {
		_ = s.Flush(ctx) // nothing more is known of silent hosts
		_ = s.Close()    // its owner has the error
	})
}
