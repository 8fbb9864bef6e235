package logfile

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"time"
)

// maxLag is the most that a reader may lie behind the end of a file. It then continues with the
// tail.
const maxLag = searchBytes

// Reading is a request for the lines of a file from an offset on.
type Reading struct {
	From    int64          // negative: from the beginning
	Match   *regexp.Regexp // nil: all lines
	Bytes   int            // stop before more than this, but not before the first line
	PerLine int            // the cost of a line besides its text
	Ended   bool           // nothing more comes: a last line without newline counts
}

// Part is a part of a file: whole lines, and where the next one begins.
type Part struct {
	Lines       []Line
	Start, Next int64 // offsets of the request and of the next one
	More        bool  // the request stopped at Reading.Bytes

	// Output between Start and the first line, passed over because the reader was too slow. Lines
	// are counted if the file still has them, else their bytes.
	DroppedLines int
	DroppedBytes int64
}

// Read returns lines from an offset on. A reader that lies more than 8 MiB behind continues with
// the last 64 KiB. Like Tail it cannot fail.
func (f File) Read(q Reading, times *Marks) Part {
	p := Part{Start: q.From}
	if q.From < 0 {
		p.Start = f.Start
	}
	p.Next = p.Start
	file, err := os.Open(f.Path)
	if err != nil {
		return p
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p
	}
	size := info.Size()
	if size < p.Next { // the file was restarted
		p.Next = 0
	}
	data := nextData(file, p.Next)
	holed := data > p.Next
	p.skip(data)
	if size-p.Next > maxLag {
		to := nextLineStart(file, size-tailBytes)
		p.DroppedLines = countLines(file, p.Next, to)
		p.Next = to
		holed = false
	}
	split := lineSplitter{}
	room := q.Bytes
	now := time.Now()
	split.emit = func(line []byte) {
		text := strings.ToValidUTF8(string(line), "\uFFFD")
		matches := q.Match == nil || q.Match.MatchString(text)
		if matches {
			room -= len(text) + q.PerLine
			p.More = p.More || room < 0 && len(p.Lines) > 0
		}
		if p.More {
			return
		}
		if matches {
			p.Lines = append(p.Lines, Line{Text: text, At: times.at(p.Next, now)})
		}
		p.Next += split.rawSize
	}
	chunk := make([]byte, followChunkSize)
	for at := p.Next; at < size && !p.More; {
		n, err := file.ReadAt(chunk[:min(size-at, followChunkSize)], at)
		part := chunk[:n]
		if holed {
			part = trimHole(part)
			p.skip(at + int64(n-len(part)))
			holed = len(part) == 0
		} else if nextData(file, at) > at { // discarded meanwhile: the next request counts it
			return p
		}
		split.feed(part)
		at += int64(n)
		if err != nil {
			return p
		}
	}
	if q.Ended && !p.More {
		split.flush()
	}
	return p
}

// skip continues at an offset after discarded bytes.
func (p *Part) skip(to int64) {
	p.DroppedBytes += to - p.Next
	p.Next = to
}

// countLines counts the lines of a part of a file.
func countLines(file *os.File, from, to int64) (n int) {
	chunk := make([]byte, followChunkSize)
	for from < to {
		got, err := file.ReadAt(chunk[:min(to-from, followChunkSize)], from)
		n += bytes.Count(chunk[:got], []byte{'\n'})
		from += int64(got)
		if err != nil {
			break
		}
	}
	return n
}
