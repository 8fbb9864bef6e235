package logfile

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
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

const (
	// tailBytes bounds the part of a file read for its tail.
	tailBytes = 64 << 10
	// searchBytes bounds the part of a file read for a search.
	searchBytes = 8 << 20
)

// Tail returns at most the last n lines, from the last 64 KiB of the file, as valid UTF-8. It
// cannot fail: it omits unreadable data and replaces bytes other than text.
func (f File) Tail(n int) (all []string) {
	for _, l := range f.Select(Selection{Lines: n}, &Marks{}).Lines {
		all = append(all, l.Text)
	}
	return all
}

// Selection selects lines of a file: the last ones that match.
type Selection struct {
	Lines int            // at most
	Since time.Time      // only lines of this time or later; zero: all
	Match *regexp.Regexp // nil: all
	Whole bool           // leave out a last line without newline, and set Part.Next for Read
}

// Line is a line of a file, as valid UTF-8.
type Line struct {
	Text string
	At   time.Time // zero: unknown
}

// Select returns lines of the last 64 KiB of the file, or of the last 8 MiB for a search by time or
// content. The marks have their times. Like Tail it cannot fail.
func (f File) Select(q Selection, times *Marks) (p Part) {
	file, err := os.Open(f.Path)
	if err != nil || q.Lines <= 0 && !q.Whole {
		return p
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p
	}
	var all []Line
	at, now := f.Start, time.Now()
	if info.Size() < at { // the file was restarted
		at = 0
	}
	room := int64(tailBytes)
	if !q.Since.IsZero() || q.Match != nil {
		room = searchBytes
	}
	if !q.Since.IsZero() {
		at = max(at, times.since(q.Since))
	}
	if begin := info.Size() - room; begin > at {
		at = nextLineStart(file, nextData(file, begin))
	}
	split := lineSplitter{}
	split.emit = func(line []byte) {
		text := strings.ToValidUTF8(string(line), "\uFFFD")
		l := Line{Text: text, At: times.at(at, now)}
		at += split.rawSize
		if !l.At.Before(q.Since) && (q.Match == nil || q.Match.MatchString(text)) {
			all = append(all, l)
		}
		if len(all) >= 2*q.Lines {
			all = all[:copy(all, all[len(all)-q.Lines:])]
		}
	}
	in := io.NewSectionReader(file, at, info.Size()-at)
	chunk := make([]byte, followChunkSize)
	for holed := true; ; {
		n, err := in.Read(chunk)
		data := chunk[:n]
		if holed { // at the start of the kept part
			data = trimHole(data)
			at += int64(n - len(data))
			holed = len(data) == 0
		}
		split.feed(data)
		if err != nil {
			break
		}
	}
	if q.Whole {
		p.Next = at
	} else {
		split.flush()
	}
	p.Lines = all[max(0, len(all)-q.Lines):]
	return p
}
