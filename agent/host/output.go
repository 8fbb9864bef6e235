package host

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// batchBytes is how much output goes into one message at most, where the bus
	// takes so much.
	batchBytes = 32 << 10
	// heldBytes is how much of the end of what is left out is shown after all.
	heldBytes = 16 << 10
	// procRate and hostRate are how much output is published in a second, of one proc
	// and of all.
	procRate = 2 << 20
	hostRate = 16 << 20
	// drainWithin bounds how long the end of a proc that was asked for waits for its last lines, and
	// newsWithin that of one that nobody expects.
	drainWithin = 200 * time.Millisecond
	newsWithin  = 50 * time.Millisecond
)

// output publishes what one proc prints: lines that come together in one message, one below the
// other, on the stream's subject. It never holds up the proc, which writes to files.
type output struct {
	id      subjects.ProcID
	process process
	conn    publisher
	warn    func(err error, what string)
	streams [2]outStream
	own     *allowance // of this proc
	all     *allowance // of the host
	told    chan struct{}
	mark    func(s launch.Stream, at int64) // of a proc that is kept: the next host goes on there
}

// publisher is the part of a bus.Conn that an output needs.
type publisher interface {
	Publish(subject string, data []byte) error
	Flush(ctx context.Context) error
	MaxPayload() int
}

// outStream is one stream of an output.
type outStream struct {
	subject string
	batch   []byte // lines, each with a newline
	lines   int    // that readers miss when the batch is lost
	out     leftOut
}

// followOutput publishes what a proc prints until it has ended and all is published.
func (a *hostAgent) followOutput(ctx *actor.Context, id subjects.ProcID, process process) *output {
	p := ctx.Proc()
	o := &output{
		id: id, process: process, conn: p.Bus().Data(), own: &allowance{rate: procRate}, all: a.output, told: make(chan struct{}),
		mark: a.run.marks(id),
		warn: func(err error, what string) {
			log := p.Log()
			log.Warn().Err(err).Stringer("of", id).Msg(what)
		},
	}
	for s := range o.streams {
		o.streams[s].subject = p.Space().Log(id, launch.Stream(s).String(), p.ID().Process().String())
	}
	ctx.Go(func(context.Context) func(*actor.Context) { // it ends with the process, at the latest when the launcher closes
		o.follow()
		return nil
	})
	return o
}

// drain waits until everything that the proc printed before it ended is published, and the server
// has it: at most for so long from the exit on. It is for tasks, and for an agent's last turn. A proc
// that nobody follows has nothing to wait for.
func (o *output) drain(e launch.Exit, within time.Duration) {
	if o == nil {
		return
	}
	late := time.NewTimer(time.Until(e.At.Add(within)))
	defer late.Stop()
	select {
	case <-o.told:
	case <-late.C:
	}
}

func (o *output) follow() {
	defer close(o.told)
	why := o.process.Unkept()
	if why != nil {
		o.warn(why, "output is not kept")
		o.say(launch.Stderr, "nothing of what this proc prints is kept: "+firstLine(why))
	}
	var room [2]int64
	err := o.process.Follow(context.Background(), launch.Following{
		Line:  func(s launch.Stream, line []byte) { o.line(s, line, time.Now()) },
		Round: func() { o.round(time.Now()) },
		Told:  o.mark,
		MadeRoom: func(s launch.Stream, n int64) {
			if room[s] += n; room[s] == n {
				o.say(s, "the disk of the log files is full: older output is dropped")
			}
		},
		Skipped: func(s launch.Stream, n int64) { o.streams[s].out.skipped += n },
	})
	if err != nil && why == nil {
		o.warn(err, "output is no longer followed")
		o.say(launch.Stderr, "not all that this proc prints is shown: "+firstLine(err))
	}
	for s := range o.streams {
		if room[s] > 0 {
			o.say(launch.Stream(s), fmt.Sprintf("%d bytes of older output were dropped in all", room[s]))
		}
		o.release(launch.Stream(s))
		o.publish(launch.Stream(s))
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	_ = o.conn.Flush(ctx) // without a server there is nobody to tell
}

// firstLine keeps an error within one.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// line takes the next line of a stream.
func (o *output) line(s launch.Stream, line []byte, now time.Time) {
	st, n := &o.streams[s], len(line)+1
	if !o.own.take(n, now) || !o.all.take(n, now) {
		st.out.hold(line)
		return
	}
	o.release(s)
	o.pass(s, line)
}

// round publishes what has come together, and what was left out as soon as there is room for it.
func (o *output) round(now time.Time) {
	for s := range o.streams {
		if st := &o.streams[s]; st.out.any() && o.own.take(len(st.out.held), now) && o.all.take(len(st.out.held), now) {
			o.release(launch.Stream(s))
		}
		o.publish(launch.Stream(s))
	}
}

// release says how much was left out, and goes on with the end of it.
func (o *output) release(s launch.Stream) {
	st := &o.streams[s]
	if !st.out.any() {
		return
	}
	if text := st.out.String(); text != "" {
		o.say(s, text)
		st.lines += st.out.lines
	}
	for line := range bytes.Lines(st.out.held) {
		o.pass(s, line[:len(line)-1])
	}
	st.out = leftOut{held: st.out.held[:0]}
}

// say tells readers of a stream what its proc did not print.
func (o *output) say(s launch.Stream, text string) { o.add(s, []byte("[castnet] "+text)) }

// pass adds a line of the proc to what is published next.
func (o *output) pass(s launch.Stream, line []byte) {
	o.add(s, line)
	o.streams[s].lines++
}

func (o *output) add(s launch.Stream, line []byte) {
	st := &o.streams[s]
	if most := min(batchBytes, o.conn.MaxPayload()); len(st.batch)+len(line) > most {
		o.publish(s)
	}
	st.batch = append(append(st.batch, line...), '\n')
}

// publish sends what has come together. What is lost with the bus is still in the file, and said.
func (o *output) publish(s launch.Stream) {
	st := &o.streams[s]
	if len(st.batch) == 0 {
		return
	}
	if err := o.conn.Publish(st.subject, st.batch[:len(st.batch)-1]); err != nil {
		st.out.lines += st.lines
	}
	st.batch, st.lines = st.batch[:0], 0
}

// leftOut is what was not published of a stream. Its end is held, to be shown when there is room.
type leftOut struct {
	lines   int    // not held any more
	skipped int64  // bytes that were not even read
	held    []byte // lines, each with a newline
}

func (l *leftOut) any() bool { return l.lines > 0 || l.skipped > 0 || len(l.held) > 0 }

func (l *leftOut) hold(line []byte) {
	l.held = append(append(l.held, line...), '\n')
	if len(l.held) <= 2*heldBytes {
		return
	}
	cut := len(l.held) - heldBytes
	cut += bytes.IndexByte(l.held[cut:], '\n') + 1 // there is one: each line has its own
	l.lines += bytes.Count(l.held[:cut], []byte{'\n'})
	l.held = l.held[:copy(l.held, l.held[cut:])]
}

// String is what readers are told; nothing when the end is all there was.
func (l *leftOut) String() string {
	var text string
	switch {
	case l.lines == 1:
		text = "1 line left out"
	case l.lines > 1:
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

// allowance is what may be published in a second: when it is used up, nothing until the next one.
type allowance struct {
	rate  int
	mu    sync.Mutex
	begun time.Time
	spent int
}

func (a *allowance) take(n int, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.begun) >= time.Second {
		a.begun, a.spent = now, 0
	}
	if a.spent+n > a.rate {
		a.spent = a.rate
		return false
	}
	a.spent += n
	return true
}

// Logs answers the last lines of the procs of a mesh, ended ones included, fewer when they are too
// many for one message.
func (a *hostAgent) Logs(_ *actor.Context, q agent.LogQuery) ([]agent.LogTail, error) {
	var out []agent.LogTail
	of := a.shares[q.ID]
	if of == nil {
		return nil, nil
	}
	for _, c := range of.procs {
		if c.process == nil {
			continue
		}
		out = append(out,
			agent.LogTail{Rank: c.rank, Stream: launch.Stdout.String(), Lines: c.process.StdoutTail(q.Lines)},
			agent.LogTail{Rank: c.rank, Stream: launch.Stderr.String(), Lines: c.process.StderrTail(q.Lines)})
	}
	slices.SortStableFunc(out, func(x, y agent.LogTail) int { return cmp.Compare(x.Rank, y.Rank) })
	for i := range out {
		out[i].Lines = newest(out[i].Lines, maxLogs/len(out))
	}
	return out, nil
}

// maxLogs bounds the bytes of an answer to Logs: half of what a message may hold by default.
const maxLogs = 512 << 10

// newest is the last lines that fit into so many bytes; each costs some to encode.
func newest(lines []string, budget int) []string {
	for i := len(lines) - 1; i >= 0; i-- {
		if budget -= len(lines[i]) + 5; budget < 0 {
			return lines[i+1:]
		}
	}
	return lines
}

// removeLogs is for a proc that nobody can ask about any more.
func removeLogs(c *child) {
	if c.process == nil {
		return
	}
	for _, path := range []string{c.process.StdoutPath(), c.process.StderrPath()} {
		_ = os.Remove(path) // it may be gone, or never have been
	}
}
