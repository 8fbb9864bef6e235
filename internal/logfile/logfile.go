package logfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
)

// Stream is one of the two outputs of a process.
type Stream int

// Outputs of a process.
const (
	Stdout Stream = iota
	Stderr
)

// String returns the name of the output.
func (s Stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// File is the destination of one output of a process. The zero File is no destination.
type File struct {
	Path   string
	Start  int64 // output of an earlier process may come before
	Resume int64 // Follow begins here, if after Start
	Cap    int64 // bytes kept at least, at most doubled (LOG-1); 0 = DefaultCap
	Err    error `json:"-"` // why the output goes to no file
}

// Output holds the files of one process, by Stream.
type Output [2]File

// Err returns why some output goes to no file, or nil.
func (o Output) Err() error { return errors.Join(o[Stdout].Err, o[Stderr].Err) }

// Remove removes the files.
func (o Output) Remove() {
	for _, f := range o {
		_ = os.Remove(f.Path) // may be gone or never created
	}
}

// tailBytes bounds the part of a file read for its tail.
const tailBytes = 64 << 10

// Tail returns at most the last n lines, from the last 64 KiB of the file, as valid UTF-8. It
// cannot fail: it omits unreadable data and replaces bytes other than text.
func (f File) Tail(n int) []string {
	file, err := os.Open(f.Path)
	if err != nil || n <= 0 {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	start := f.Start
	if info.Size() < start { // the file was restarted
		start = 0
	}
	begin := max(start, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(file, begin, tailBytes))
	if err != nil {
		return nil
	}
	kept := trimHole(data)
	return lastLines(kept, begin > start && len(kept) == len(data), n)
}

// lastLines splits data into lines. clipped marks an incomplete first line, which is omitted unless
// it is the only one.
func lastLines(data []byte, clipped bool, n int) []string {
	if clipped {
		if _, rest, found := bytes.Cut(data, []byte{'\n'}); found && len(rest) > 0 {
			data = rest
		}
	}
	var all []string
	split := lineSplitter{emit: func(line []byte) {
		all = append(all, strings.ToValidUTF8(string(line), "\uFFFD"))
	}}
	split.feed(data)
	split.flush()
	return all[max(0, len(all)-n):]
}
