package launch

import (
	"bytes"
	"unicode/utf8"
)

const (
	// MaxLine is the length at which a line of output is cut.
	MaxLine = 4 << 10

	// TruncatedMark ends a line that was cut.
	TruncatedMark = "… [TRUNCATED]"
)

// lines turns chunks of bytes into whole lines without their newlines, in
// memory that does not grow with the length of a line (LCH-8).
type lines struct {
	emit func(line []byte) // the slice is valid during the call only
	buf  []byte            // the line so far, at most MaxLine
	cut  bool              // the line was longer
	size int64             // of the line so far, with what was cut
}

// feed takes the next chunk.
func (l *lines) feed(chunk []byte) {
	for len(chunk) > 0 {
		part, rest, whole := bytes.Cut(chunk, []byte{'\n'})
		if room := MaxLine - len(l.buf); len(part) > room {
			part, l.cut = part[:room], true
		}
		l.buf = append(l.buf, part...)
		l.size += int64(len(chunk) - len(rest))
		if whole {
			l.end()
		}
		chunk = rest
	}
}

// flush emits the line that has no newline yet, if there is one.
func (l *lines) flush() {
	if len(l.buf) > 0 {
		l.end()
	}
}

// drop forgets the line that has no newline yet, and returns how much it was.
func (l *lines) drop() int {
	n := len(l.buf)
	l.buf, l.cut, l.size = l.buf[:0], false, 0
	return n
}

func (l *lines) end() {
	if l.cut {
		l.buf = append(wholeRunes(l.buf), TruncatedMark...)
	}
	l.emit(l.buf)
	l.buf, l.cut, l.size = l.buf[:0], false, 0
}

// wholeRunes drops the first bytes of a rune that was cut in two.
func wholeRunes(b []byte) []byte {
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
