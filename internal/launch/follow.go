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
	// followEvery is how often a file that grows is looked at; one that rests is
	// looked at less often, down to every followRarely.
	followEvery  = 50 * time.Millisecond
	followRarely = 500 * time.Millisecond
	followChunk  = 32 << 10
)

// A Stream is one of the two outputs of a child.
type Stream int

// The outputs.
const (
	Stdout Stream = iota
	Stderr
)

// String is the output's name.
func (s Stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// A Following is told what a child prints. All its functions are called on the
// goroutine of Follow and may block; meanwhile the child's files only grow.
type Following struct {
	// Line gets each line without its newline; the slice is valid during the
	// call only. One longer than MaxLine is cut and ends with TruncatedMark.
	Line func(s Stream, line []byte)
	// Round is called when Line has got all there was, before Follow waits for
	// more. Nil is nothing.
	Round func()
	// Told is called after Round, and says of an output of which more was told since
	// at what offset of its file the next line begins. Nil is nothing.
	Told func(s Stream, at int64)
	// MadeRoom is called when more was let go of than Spec.LogCap wants: because
	// the disk is nearly full, or can have no holes. Nil is nothing.
	MadeRoom func(s Stream, bytes int64)
	// Skipped is called when the child printed so much faster than it was read that
	// so many bytes were let go of unread, to keep to Spec.LogCap. Nil is nothing.
	Skipped func(s Stream, bytes int64)
}

// Follow tells f what this child prints until the child has ended and all of it
// is told, or ctx ends. Who follows also keeps the files within Spec.LogCap, so
// one does, for as long as the child lives. Output that went to no file is an
// error that says why (see Child.Unkept), once the rest is told.
func (c *Child) Follow(ctx context.Context, f Following) error {
	var all []*follower
	var errs []error
	for s, log := range []logFile{c.stdout, c.stderr} {
		fw, err := openFollower(log.path, max(log.from, log.told), log.keep())
		if log.unkept != nil {
			err = log.unkept
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot follow %s: %w", Stream(s), err))
			continue
		}
		fw.lines.emit = func(line []byte) { f.Line(Stream(s), line) }
		fw.madeRoom = told(f.MadeRoom, Stream(s))
		fw.skipped = told(f.Skipped, Stream(s))
		fw.told = told(f.Told, Stream(s))
		all = append(all, fw)
	}
	round := func() {
		if f.Round != nil {
			f.Round()
		}
		for _, fw := range all {
			fw.tell()
		}
	}
	return errors.Join(followAll(ctx, c.done, round, all), errors.Join(errs...))
}

// told binds a function that may be nil to a stream.
func told(f func(Stream, int64), s Stream) func(int64) {
	return func(bytes int64) {
		if f != nil && bytes > 0 {
			f(s, bytes)
		}
	}
}

// Follow calls emit for every line that is in the file at path, beginning at
// offset from, or is appended to it later: as Following.Line. If the file
// becomes shorter, what was read of its last line is delivered and Follow starts
// over at its beginning; what somebody has let go of is skipped.
//
// A closed done (nil is never) says that the writer has finished: Follow
// delivers the rest of the file and returns nil. When ctx ends it reads no
// further and returns ctx's error. Either way a last line without a newline is
// delivered too. Emit runs on the caller's goroutine and may block; nothing is
// buffered meanwhile but one line.
func Follow(ctx context.Context, path string, from int64, done <-chan struct{}, emit func(line []byte)) error {
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
	pace := time.NewTimer(followEvery)
	defer pace.Stop()
	for wait, last := followEvery, false; ; {
		moved := false
		for _, f := range all {
			before := f.at
			if err := f.catchUp(ctx); err != nil {
				return err
			}
			moved = moved || f.at != before
		}
		if last {
			return nil
		}
		if round(); moved {
			wait = 0
		}
		wait = min(wait+followEvery, followRarely)
		pace.Reset(untilNext(wait, time.Now()))
		select {
		case <-ctx.Done(): // catchUp returns its error
		case <-done:
			last = true
		case <-pace.C:
		}
	}
}

// untilNext is how long it is until the next multiple of wait: so all who follow wake at the same
// moments, and a process that follows many files sleeps in between.
func untilNext(wait time.Duration, now time.Time) time.Duration {
	return wait - time.Duration(now.UnixNano())%wait
}

// follower reads one file.
type follower struct {
	file     *os.File
	at       int64 // all before was read
	keep     logKeeper
	chunk    []byte
	lines    lines
	madeRoom func(bytes int64)
	skipped  func(bytes int64)
	told     func(at int64)
	toldTo   int64
}

// tell says how much was told.
func (f *follower) tell() {
	if at := f.at - f.lines.size; at != f.toldTo {
		f.toldTo = at
		f.told(at)
	}
}

// openFollower opens the file for what keep needs, and where that is refused for
// reading.
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
	return &follower{file: f, at: from, keep: logKeeper{cap: keep, floor: dataFrom(f, 0), full: diskNearlyFull}, chunk: make([]byte, followChunk)}, nil
}

// close delivers the line that has no newline.
func (f *follower) close() {
	f.lines.flush()
	_ = f.file.Close() // nothing was written
}

// catchUp reads to the end the file has now, so that a writer who never pauses
// cannot hold it.
func (f *follower) catchUp(ctx context.Context) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot follow: %w", err)
	}
	size := info.Size()
	if size < f.at {
		f.lines.flush()
		f.at, f.keep.floor = 0, 0
	}
	if size == f.at {
		f.makeRoom()
		return ctx.Err()
	}
	holed := f.skipHole()
	for f.hurry(); f.at < size; f.hurry() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.file.ReadAt(f.chunk[:min(size-f.at, followChunk)], f.at)
		f.at += int64(n)
		data := f.chunk[:n]
		if holed {
			data = afterHole(data)
			holed = len(data) == 0
		}
		f.lines.feed(data)
		if err == io.EOF {
			break // it was truncated under us; the next round sees it
		}
		if err != nil {
			return fmt.Errorf("cannot follow: %w", err)
		}
		f.makeRoom() // also while far behind
	}
	f.makeRoom()
	return ctx.Err()
}

// hurry gives up what is so far behind that it would be let go of as soon as it
// was read.
func (f *follower) hurry() {
	info, err := f.file.Stat()
	if f.keep.cap == 0 || err != nil || info.Size()-f.at <= 2*f.keep.cap {
		return
	}
	to := lineBegin(f.file, info.Size()-f.keep.cap)
	f.skipped(to - f.at + int64(f.lines.drop()))
	f.at = to
	f.makeRoom()
}

// skipHole goes on where the file has data again; true when it had none here.
func (f *follower) skipHole() bool {
	data := dataFrom(f.file, f.at)
	if data <= f.at {
		return false
	}
	f.lines.flush()
	f.at, f.keep.floor = data, data
	return true
}

// makeRoom lets go of what is read and no longer kept.
func (f *follower) makeRoom() {
	freed, forced := f.keep.trim(f.file, f.at, time.Now())
	if forced {
		f.madeRoom(freed)
	}
	if f.keep.restarted {
		f.at, f.keep.restarted = 0, false
	}
}
