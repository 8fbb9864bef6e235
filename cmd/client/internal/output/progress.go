package output

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress is a line redrawn on a terminal's stderr. Elsewhere it prints nothing, or plain lines.
// It belongs to one goroutine.
type Progress struct {
	w     io.Writer // nil: not shown
	drawn bool

	lines      bool      // plain lines at intervals
	lastLineAt time.Time // time of the last line
	lastCount  int       // count in the last line
}

// lineInterval is the minimum time between plain lines, and before the first one.
const lineInterval = time.Second

// NewProgress returns a progress for two terminal streams.
func (out *Printer) NewProgress() *Progress {
	if out.ErrTTY && out.Format == Table {
		return &Progress{w: out.Stderr}
	}
	return &Progress{}
}

// NewLineProgress returns a progress for slow operations without other output: without a terminal
// it prints lines.
func (out *Printer) NewLineProgress() *Progress {
	if p := out.NewProgress(); p.IsShown() {
		return p
	}
	return &Progress{w: out.Stderr, lines: true, lastLineAt: time.Now()}
}

// IsShown reports whether the progress is visible.
func (p *Progress) IsShown() bool { return p.w != nil }

// barWidth is the width of the bar in characters.
const barWidth = 24

// Update shows n of a total.
func (p *Progress) Update(n, of int, what string) {
	if p.w == nil || of < 1 {
		return
	}
	if p.lines {
		if n != p.lastCount && time.Since(p.lastLineAt) >= lineInterval {
			p.lastLineAt, p.lastCount = time.Now(), n
			fmt.Fprintf(p.w, "%d/%d %s\n", n, of, what)
		}
		return
	}
	full := barWidth * n / of
	fmt.Fprintf(
		p.w, "\r\x1b[K%s%s %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), n, of, what,
	)
	p.drawn = true
}

// Message shows a text while there is no count.
func (p *Progress) Message(what string) {
	if p.w == nil || p.lines {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s …", what)
	p.drawn = true
}

// Clear makes room for other output.
func (p *Progress) Clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
