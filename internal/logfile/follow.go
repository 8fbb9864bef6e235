package logfile

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

// Handler receives the output of a process. Its functions run on the goroutine of Follow and may
// block. The files grow meanwhile. All but Line may be nil.
type Handler struct {
	// Line receives each line without newline. The slice is valid during the call. A line over
	// MaxLine is cut and ends with TruncatedMark.
	Line func(s Stream, line []byte)
	// CaughtUp is called at the end of the output, before Follow waits for more.
	CaughtUp func()
	// Offset is called after CaughtUp for each output with new lines. Argument at is the file
	// offset of the next line.
	Offset func(s Stream, at int64)
	// Dropped is called when more was discarded than File.Cap requires, because the disk is nearly
	// full or has no holes.
	Dropped func(s Stream, bytes int64)
	// Skipped is called when unread output was discarded to keep File.Cap, because the process
	// printed too fast.
	Skipped func(s Stream, bytes int64)
}

// Follow passes the output of a process to h, present or appended later. A closed done marks the
// end of writing: Follow delivers the rest and returns. When ctx ends, Follow returns its error.
// Both ways it delivers a last line without newline. Only one line is buffered.
//
// Follow also keeps the files within File.Cap, so each process needs one Follow for its whole life.
// If a file shrinks, Follow delivers its incomplete line and restarts at the beginning. It skips
// discarded parts. For output without a file it returns an error at the end.
func (o Output) Follow(ctx context.Context, done <-chan struct{}, h Handler) error {
	var all []*follower
	var errs []error
	for s, file := range o {
		if file.Path == "" && file.Err == nil {
			continue
		}
		f, err := openFollower(file, Stream(s), h)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot follow %s: %w", Stream(s), err))
			continue
		}
		defer f.close()
		all = append(all, f)
	}
	err := followAll(ctx, done, h, all)
	return errors.Join(append(errs, err)...)
}

func followAll(ctx context.Context, done <-chan struct{}, h Handler, all []*follower) error {
	if len(all) == 0 {
		return nil
	}
	round := func() {
		if h.CaughtUp != nil {
			h.CaughtUp()
		}
		for _, f := range all {
			f.reportOffset()
		}
	}
	defer round()
	for _, f := range all {
		defer f.lines.flush()
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
	stream         Stream
	handler        Handler
	file           *os.File
	offset         int64 // read up to here
	trimmer        trimmer
	chunk          []byte
	lines          lineSplitter
	reportedOffset int64
}

// openFollower opens a file for writing, to trim it. If that is refused, it opens the file for
// reading.
func openFollower(file File, s Stream, h Handler) (*follower, error) {
	if file.Err != nil {
		return nil, file.Err
	}
	f, err := os.OpenFile(file.Path, os.O_RDWR, 0)
	if err != nil {
		f, err = os.Open(file.Path)
	}
	if err != nil {
		return nil, err
	}
	return &follower{
		stream: s, handler: h, file: f, offset: max(file.Start, file.Resume), chunk: make([]byte, followChunkSize),
		trimmer: trimmer{file: f, cap: file.minKept(), start: nextData(f, 0), isDiskFull: diskNearlyFull},
		lines:   lineSplitter{emit: func(line []byte) { h.Line(s, line) }},
	}, nil
}

func (f *follower) close() { _ = f.file.Close() } // only holes were written

// reportOffset reports the delivered offset.
func (f *follower) reportOffset() {
	if at := f.offset - f.lines.rawSize; at != f.reportedOffset && f.handler.Offset != nil {
		f.reportedOffset = at
		f.handler.Offset(f.stream, at)
	}
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
		f.offset, f.trimmer.start = 0, 0
	}
	if size == f.offset {
		f.trim()
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
		f.trim() // also during a large backlog
	}
	f.trim()
	return ctx.Err()
}

// skipBacklog skips output that would be discarded right after the read.
func (f *follower) skipBacklog() {
	info, err := f.file.Stat()
	if err != nil || info.Size()-f.offset <= 2*f.trimmer.cap {
		return
	}
	to := nextLineStart(f.file, info.Size()-f.trimmer.cap)
	skipped := to - f.offset + int64(f.lines.drop())
	if f.handler.Skipped != nil && skipped > 0 {
		f.handler.Skipped(f.stream, skipped)
	}
	f.offset = to
	f.trim()
}

// skipHole skips a hole at the present offset. It returns false without one.
func (f *follower) skipHole() bool {
	data := nextData(f.file, f.offset)
	if data <= f.offset {
		return false
	}
	f.lines.flush()
	f.offset, f.trimmer.start = data, data
	return true
}

// trim discards old output that was read.
func (f *follower) trim() {
	freed, forced := f.trimmer.trim(f.offset, time.Now())
	if forced && freed > 0 && f.handler.Dropped != nil {
		f.handler.Dropped(f.stream, freed)
	}
	if f.trimmer.restarted {
		f.offset, f.trimmer.restarted = 0, false
	}
}
