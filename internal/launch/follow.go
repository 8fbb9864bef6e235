package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// followInterval is the poll interval of a growing file. It grows up to maxFollowInterval for
	// an idle file.
	followInterval    = 50 * time.Millisecond
	maxFollowInterval = 500 * time.Millisecond
	followChunkSize   = 32 << 10
)

// Stream is one of the two outputs of a child.
type Stream int

// Outputs of a child.
const (
	Stdout Stream = iota
	Stderr
)

// String returns the name of the output.
func (s Stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// FollowHandler receives the output of a child. Its functions run on the goroutine of Follow and
// may block. The child's files grow meanwhile.
type FollowHandler struct {
	// Line receives each line without newline. The slice is valid during the call. A line over
	// MaxLine is cut and ends with TruncatedMark.
	Line func(s Stream, line []byte)
	// CaughtUp is called at the end of the output, before Follow waits for more. It may be nil.
	CaughtUp func()
	// Offset is called after CaughtUp for each output with new lines. Argument at is the file
	// offset of the next line. It may be nil.
	Offset func(s Stream, at int64)
	// Dropped is called when more was discarded than Spec.LogCap requires, because the disk is
	// nearly full or has no holes. It may be nil.
	Dropped func(s Stream, bytes int64)
	// Skipped is called when unread output was discarded to keep Spec.LogCap, because the child
	// printed too fast. It may be nil.
	Skipped func(s Stream, bytes int64)
}

// Follow passes the child's output to f until the child has ended and all output is read, or until
// ctx ends. It also keeps the files within Spec.LogCap, so each child needs one Follow for its
// whole life. For output without a file, Follow returns an error at the end (see Child.LogError).
func (c *Child) Follow(ctx context.Context, f FollowHandler) error {
	var all []*follower
	var errs []error
	for s, log := range []logFile{c.stdout, c.stderr} {
		fw, err := openFollower(log.path, max(log.start, log.resumeAt), log.minKept())
		if log.err != nil {
			err = log.err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot follow %s: %w", Stream(s), err))
			continue
		}
		fw.lines.emit = func(line []byte) { f.Line(Stream(s), line) }
		fw.onDropped = bindStream(f.Dropped, Stream(s))
		fw.onSkipped = bindStream(f.Skipped, Stream(s))
		fw.onOffset = bindStream(f.Offset, Stream(s))
		all = append(all, fw)
	}
	round := func() {
		if f.CaughtUp != nil {
			f.CaughtUp()
		}
		for _, fw := range all {
			fw.reportOffset()
		}
	}
	return errors.Join(followAll(ctx, c.done, round, all), errors.Join(errs...))
}

// bindStream binds an optional function to a stream.
func bindStream(f func(Stream, int64), s Stream) func(int64) {
	return func(bytes int64) {
		if f != nil && bytes > 0 {
			f(s, bytes)
		}
	}
}

// Follow calls emit for every line in the file at path, from offset from on, present or appended
// later, as for FollowHandler.Line. If the file shrinks, Follow delivers its incomplete line and
// restarts at the beginning. It skips discarded parts.
//
// A closed done (nil: never) marks the end of writing: Follow delivers the rest and returns nil.
// When ctx ends, Follow returns its error. Both ways it delivers a last line without newline. Emit
// runs on the caller's goroutine and may block. Only one line is buffered.
func Follow(ctx context.Context, path string, from int64, done <-chan struct{},
	emit func(line []byte)) error {
	f, err := openFollower(path, from, 0)
	if err != nil {
		return fmt.Errorf("cannot follow: %w", err)
	}
	f.lines.emit = emit
	return followAll(ctx, done, func() {}, []*follower{f})
}

func followAll(ctx context.Context, done <-chan struct{}, round func(), all []*follower) error {
	defer round()
	for _, f := range all {
		defer f.close()
	}
	pace := time.NewTimer(followInterval)
	defer pace.Stop()
	for wait, last := followInterval, false; ; {
		moved := false
		for _, f := range all {
			before := f.offset
			if err := f.catchUp(ctx); err != nil {
				return err
			}
			moved = moved || f.offset != before
		}
		if last {
			return nil
		}
		round()
		if moved {
			wait = 0
		}
		wait = min(wait+followInterval, maxFollowInterval)
		pace.Reset(untilNextMultiple(wait, time.Now()))
		select {
		case <-ctx.Done(): // catchUp returns its error
		case <-done:
			last = true
		case <-pace.C:
		}
	}
}

// untilNextMultiple returns the time to the next multiple of wait. All followers then wake
// together, and the process sleeps in between.
func untilNextMultiple(wait time.Duration, now time.Time) time.Duration {
	return wait - time.Duration(now.UnixNano())%wait
}

// follower reads one file.
type follower struct {
	file           *os.File
	offset         int64 // read up to here
	keeper         logKeeper
	chunk          []byte
	lines          lineSplitter
	onDropped      func(bytes int64)
	onSkipped      func(bytes int64)
	onOffset       func(at int64)
	reportedOffset int64
}

// reportOffset reports the delivered offset.
func (f *follower) reportOffset() {
	if at := f.offset - f.lines.rawSize; at != f.reportedOffset {
		f.reportedOffset = at
		f.onOffset(at)
	}
}

// openFollower opens the file for writing if keep needs it. If that is refused, it opens the file
// for reading.
func openFollower(path string, from int64, keep int64) (*follower, error) {
	f, err := (*os.File)(nil), error(nil)
	if keep > 0 {
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if keep == 0 || err != nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	return &follower{file: f, offset: from, keeper: logKeeper{cap: keep, start: nextData(f, 0), isDiskFull: diskNearlyFull}, chunk: make([]byte, followChunkSize)}, nil
}

// close delivers the line without newline.
func (f *follower) close() {
	f.lines.flush()
	_ = f.file.Close() // no writes
}

// catchUp reads to the present end of the file. A busy writer cannot prolong it.
func (f *follower) catchUp(ctx context.Context) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot follow: %w", err)
	}
	size := info.Size()
	if size < f.offset {
		f.lines.flush()
		f.offset, f.keeper.start = 0, 0
	}
	if size == f.offset {
		f.trimFile()
		return ctx.Err()
	}
	holed := f.skipHole()
	for f.skipBacklog(); f.offset < size; f.skipBacklog() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.file.ReadAt(f.chunk[:min(size-f.offset, followChunkSize)], f.offset)
		f.offset += int64(n)
		data := f.chunk[:n]
		if holed {
			data = trimHole(data)
			holed = len(data) == 0
		}
		f.lines.feed(data)
		if err == io.EOF {
			break // truncated meanwhile; the next round handles it
		}
		if err != nil {
			return fmt.Errorf("cannot follow: %w", err)
		}
		f.trimFile() // also during a large backlog
	}
	f.trimFile()
	return ctx.Err()
}

// skipBacklog skips output that would be discarded right after the read.
func (f *follower) skipBacklog() {
	info, err := f.file.Stat()
	if f.keeper.cap == 0 || err != nil || info.Size()-f.offset <= 2*f.keeper.cap {
		return
	}
	to := nextLineStart(f.file, info.Size()-f.keeper.cap)
	f.onSkipped(to - f.offset + int64(f.lines.drop()))
	f.offset = to
	f.trimFile()
}

// skipHole skips a hole at the present offset. It returns false without one.
func (f *follower) skipHole() bool {
	data := nextData(f.file, f.offset)
	if data <= f.offset {
		return false
	}
	f.lines.flush()
	f.offset, f.keeper.start = data, data
	return true
}

// trimFile discards old output that was read.
func (f *follower) trimFile() {
	freed, forced := f.keeper.trim(f.file, f.offset, time.Now())
	if forced {
		f.onDropped(freed)
	}
	if f.keeper.restarted {
		f.offset, f.keeper.restarted = 0, false
	}
}
