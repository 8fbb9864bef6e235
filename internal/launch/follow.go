package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	followEvery = 50 * time.Millisecond
	followChunk = 32 << 10
)

// Follow calls emit for every line that is in the file at path, beginning at
// offset from, or is appended to it later. A line is passed without its newline
// and valid during the call only; one longer than MaxLine is cut and ends with
// TruncatedMark. If the file becomes shorter, what was read of its last line is
// delivered and Follow starts over at its beginning.
//
// A closed done (nil is never) says that the writer has finished: Follow
// delivers the rest of the file and returns nil. When ctx ends it reads no
// further and returns ctx's error. Either way a last line without a newline is
// delivered too. Emit runs on the caller's goroutine and may block; nothing is
// buffered meanwhile but one line.
func Follow(ctx context.Context, path string, from int64, done <-chan struct{}, emit func(line []byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot follow: %w", err)
	}
	defer f.Close()
	fw := follower{file: f, at: from, chunk: make([]byte, followChunk), lines: lines{emit: emit}}
	defer fw.lines.flush()
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for last := false; ; {
		if err := fw.catchUp(ctx); err != nil || last {
			return err
		}
		select {
		case <-ctx.Done(): // catchUp returns its error
		case <-done:
			last = true
		case <-ticker.C:
		}
	}
}

type follower struct {
	file  *os.File
	at    int64
	chunk []byte
	lines lines
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
		f.at = 0
	}
	for f.at < size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.file.ReadAt(f.chunk[:min(size-f.at, followChunk)], f.at)
		f.at += int64(n)
		f.lines.feed(f.chunk[:n])
		if err == io.EOF {
			break // it was truncated under us; the next round sees it
		}
		if err != nil {
			return fmt.Errorf("cannot follow: %w", err)
		}
	}
	return ctx.Err()
}
