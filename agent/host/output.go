package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// batchBytes bounds the output in one message, if the bus permits this size.
	batchBytes = 32 << 10
	// maxHeldBytes bounds the tail of omitted output that is published after all.
	maxHeldBytes = 16 << 10
	// procRate and hostRate bound the published output per second, of one proc and of all.
	procRate = 2 << 20
	hostRate = 16 << 20
	// outputDrainTimeout bounds how long a requested end waits for the last lines, and
	// crashDrainTimeout bounds the wait of an unexpected end.
	outputDrainTimeout = 200 * time.Millisecond
	crashDrainTimeout  = 50 * time.Millisecond
)

// outputPublisher publishes the output of a proc, mirrors it, and bounds its files. One message
// holds several lines. The proc writes to files, so the publisher never blocks it.
type outputPublisher struct {
	id           subjects.ProcID
	process      process
	conn         publisher // nil: nothing is published
	mirror       *mirror   // nil: none
	warn         func(err error, what string)
	streams      [2]streamBatch
	procQuota    *quota // of this proc
	hostQuota    *quota // of the host
	done         chan struct{}
	marks        [2]logfile.Marks                 // the times of its lines
	recordOffset func(s logfile.Stream, at int64) // of a kept proc: the next host continues there
	onLines      func()                           // called when the files have further lines
}

// publisher is the part of a bus.Conn that an outputPublisher needs.
type publisher interface {
	Publish(subject string, data []byte) error
	Flush(ctx context.Context) error
	MaxPayload() int
}

// streamBatch is one output stream of a proc.
type streamBatch struct {
	subject string
	batch   []byte // lines, each with a newline
	lines   int    // lines lost with the batch
	omitted omittedOutput
}

// followOutput follows the output of a proc until all is read after its end.
func (a *hostAgent) followOutput(ctx *actor.Context, c *child) *outputPublisher {
	p := ctx.Proc()
	id := c.id
	mesh := c.mesh.ID.String()
	o := &outputPublisher{
		id: id, process: c.process, procQuota: &quota{rate: procRate},
		hostQuota: a.outputQuota, done: make(chan struct{}),
		recordOffset: a.store.offsetRecorder(id), onLines: func() { a.printed.note(mesh) },
		warn: func(err error, what string) {
			log := p.Log()
			log.Warn().Err(err).Stringer("of", id).Msg(what)
		},
	}
	if keys.LogsForward.Get(c.config) {
		o.conn = p.Bus().Data()
	}
	if keys.LogsMirror.Get(c.config) {
		o.mirror = a.mirror
	}
	for s, file := range c.process.Output() { // before a request reads ahead of the task
		o.marks[s].Begin(max(file.Start, file.Resume))
	}
	for s := range o.streams {
		o.streams[s].subject = p.Space().Log(id, logfile.Stream(s).String(), p.Sender())
	}
	// ends with the process, at the latest when the launcher closes
	ctx.Go(func(context.Context) func(*actor.Context) {
		o.follow()
		return nil
	})
	return o
}

// drain waits until the server has all output from before the exit, or for the given time from the
// exit. It is for tasks and for the last turn of an agent. Unfollowed procs need no wait.
func (o *outputPublisher) drain(e launch.Exit, within time.Duration) {
	if o == nil {
		return
	}
	late := time.NewTimer(time.Until(e.At.Add(within)))
	defer late.Stop()
	select {
	case <-o.done:
	case <-late.C:
	}
}

func (o *outputPublisher) follow() {
	defer close(o.done)
	why := o.process.Output().Err()
	if why != nil {
		o.warn(why, "cannot keep the output of a proc")
		o.addNotice(logfile.Stderr, "the output of this proc is not kept: "+firstLine(why))
	}
	var room [2]int64
	err := o.process.Output().Follow(context.Background(), o.process.Done(), logfile.Handler{
		Line: func(s logfile.Stream, line []byte) {
			o.mirror.print(s, o.id, line)
			o.addLine(s, line, time.Now())
		},
		CaughtUp: func() { o.publishRound(time.Now()) },
		Offset:   o.onOffset,
		Dropped: func(s logfile.Stream, n int64) {
			room[s] += n
			if room[s] == n {
				o.addNotice(s, "the disk of the log files is full: older output is dropped")
			}
		},
		Skipped: func(s logfile.Stream, n int64) { o.streams[s].omitted.skipped += n },
	})
	if err != nil && why == nil {
		o.warn(err, "cannot follow the output of a proc")
		o.addNotice(logfile.Stderr, "some output of this proc is not shown: "+firstLine(err))
	}
	for s := range o.streams {
		if room[s] > 0 {
			o.addNotice(logfile.Stream(s), fmt.Sprintf("%d bytes of older output were dropped in total", room[s]))
		}
		o.publishHeld(logfile.Stream(s))
		o.flush(logfile.Stream(s))
	}
	if o.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), outputDrainTimeout)
	defer cancel()
	_ = o.conn.Flush(ctx) // without a server there are no readers
}

// onOffset records how far an output is published.
func (o *outputPublisher) onOffset(s logfile.Stream, at int64) {
	o.marks[s].Add(at, time.Now())
	o.onLines()
	if o.recordOffset != nil {
		o.recordOffset(s, at)
	}
}

// firstLine cuts an error text to one line.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// addLine adds the next line of a stream.
func (o *outputPublisher) addLine(s logfile.Stream, line []byte, now time.Time) {
	if o.conn == nil {
		return
	}
	st, n := &o.streams[s], len(line)+1
	if !o.procQuota.reserve(n, now) || !o.hostQuota.reserve(n, now) {
		st.omitted.hold(line)
		return
	}
	o.publishHeld(s)
	o.addProcLine(s, line)
}

// publishRound publishes the batched lines, and the held tail once the quota permits.
func (o *outputPublisher) publishRound(now time.Time) {
	for s := range o.streams {
		omitted := &o.streams[s].omitted
		n := len(omitted.held)
		if omitted.hasAny() && o.procQuota.reserve(n, now) && o.hostQuota.reserve(n, now) {
			o.publishHeld(logfile.Stream(s))
		}
		o.flush(logfile.Stream(s))
	}
}

// publishHeld publishes the number of omitted lines and then the held tail.
func (o *outputPublisher) publishHeld(s logfile.Stream) {
	st := &o.streams[s]
	if !st.omitted.hasAny() {
		return
	}
	if text := st.omitted.String(); text != "" {
		o.addNotice(s, text)
		st.lines += st.omitted.lines
	}
	for line := range bytes.Lines(st.omitted.held) {
		o.addProcLine(s, line[:len(line)-1])
	}
	st.omitted = omittedOutput{held: st.omitted.held[:0]}
}

// addNotice adds a line of castnet's own to a stream.
func (o *outputPublisher) addNotice(s logfile.Stream, text string) {
	if o.conn == nil {
		return
	}
	o.appendLine(s, []byte("[castnet] "+text))
}

// addProcLine adds a line of the proc to the next batch.
func (o *outputPublisher) addProcLine(s logfile.Stream, line []byte) {
	o.appendLine(s, line)
	o.streams[s].lines++
}

func (o *outputPublisher) appendLine(s logfile.Stream, line []byte) {
	st := &o.streams[s]
	if most := min(batchBytes, o.conn.MaxPayload()); len(st.batch)+len(line) > most {
		o.flush(s)
	}
	st.batch = append(append(st.batch, line...), '\n')
}

// flush sends the batch. If the bus loses the batch, the stream says so; the file has the lines.
func (o *outputPublisher) flush(s logfile.Stream) {
	st := &o.streams[s]
	if len(st.batch) == 0 {
		return
	}
	if err := o.conn.Publish(st.subject, st.batch[:len(st.batch)-1]); err != nil {
		st.omitted.lines += st.lines
	}
	st.batch, st.lines = st.batch[:0], 0
}

// omittedOutput is unpublished output of a stream. Its tail is held for later.
type omittedOutput struct {
	lines   int    // no longer held
	skipped int64  // unread bytes
	held    []byte // lines, each with a newline
}

func (l *omittedOutput) hasAny() bool { return l.lines > 0 || l.skipped > 0 || len(l.held) > 0 }

func (l *omittedOutput) hold(line []byte) {
	l.held = append(append(l.held, line...), '\n')
	if len(l.held) <= 2*maxHeldBytes {
		return
	}
	cut := len(l.held) - maxHeldBytes
	cut += bytes.IndexByte(l.held[cut:], '\n') + 1 // found: each line has its own
	l.lines += bytes.Count(l.held[:cut], []byte{'\n'})
	l.held = l.held[:copy(l.held, l.held[cut:])]
}

// String returns the notice for readers, or "" if the held tail is complete.
func (l *omittedOutput) String() string {
	var text string
	if l.lines == 1 {
		text = "1 line left out"
	} else if l.lines > 1 {
		text = fmt.Sprintf("%d lines left out", l.lines)
	}
	if l.skipped > 0 {
		if text != "" {
			text += ", and "
		}
		text += fmt.Sprintf("%d bytes that came faster than they could be read", l.skipped)
	}
	return text
}

// quota bounds the published bytes per second. Once it is used up, the next second refills it.
type quota struct {
	rate        int
	mu          sync.Mutex
	windowStart time.Time
	spent       int
}

func (a *quota) reserve(n int, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.windowStart) >= time.Second {
		a.windowStart, a.spent = now, 0
	}
	if a.spent+n > a.rate {
		a.spent = a.rate
		return false
	}
	a.spent += n
	return true
}

// mirror prints the output of procs as the host's own (logs.mirror).
type mirror struct {
	mu sync.Mutex
	to [2]io.Writer
}

// newMirror returns a mirror to these writers; nil: those of this process.
func newMirror(stdout, stderr io.Writer) *mirror {
	if stdout == nil {
		stdout = os.Stdout
	}
	if stderr == nil {
		stderr = os.Stderr
	}
	return &mirror{to: [2]io.Writer{stdout, stderr}}
}

func (m *mirror) print(s logfile.Stream, id subjects.ProcID, line []byte) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = fmt.Fprintf(m.to[s], "[%s] %s\n", id, line) // a closed output has no readers
}
