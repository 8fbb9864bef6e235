package logfile

import (
	"bytes"
	"unicode/utf8"
)

const (
	// MaxLine is the maximum length of an output line. Longer ones are cut.
	MaxLine = 4 << 10

	// TruncatedMark ends a cut line.
	TruncatedMark = "… [TRUNCATED]"
)

// lineSplitter splits chunks of bytes into lines without newlines, in bounded memory (LOG-1).
type lineSplitter struct {
	emit      func(line []byte) // slice valid during the call
	buf       []byte            // the line so far, at most MaxLine
	truncated bool              // the line was longer
	rawSize   int64             // length of the line so far, uncut
}

// feed adds the next chunk.
func (l *lineSplitter) feed(chunk []byte) {
	for len(chunk) > 0 {
		part, rest, whole := bytes.Cut(chunk, []byte{'\n'})
		if room := MaxLine - len(l.buf); len(part) > room {
			part, l.truncated = part[:room], true
		}
		l.buf = append(l.buf, part...)
		l.rawSize += int64(len(chunk) - len(rest))
		if whole {
			l.emitLine()
		}
		chunk = rest
	}
}

// flush emits a pending line without newline.
func (l *lineSplitter) flush() {
	if len(l.buf) > 0 {
		l.emitLine()
	}
}

// drop discards the pending line and returns its length.
func (l *lineSplitter) drop() int {
	n := len(l.buf)
	l.buf = l.buf[:0]
	l.truncated = false
	l.rawSize = 0
	return n
}

func (l *lineSplitter) emitLine() {
	if l.truncated {
		l.buf = append(trimPartialRune(l.buf), TruncatedMark...)
	}
	l.emit(l.buf)
	l.buf = l.buf[:0]
	l.truncated = false
	l.rawSize = 0
}

// trimPartialRune drops the first bytes of a split rune.
func trimPartialRune(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
