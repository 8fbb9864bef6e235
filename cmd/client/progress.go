package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is a line redrawn on a terminal's stderr. Elsewhere it prints nothing, or plain lines.
// It belongs to one goroutine.
type progress struct {
	w     io.Writer // nil: not shown
	drawn bool

	lines      bool      // plain lines at intervals
	lastLineAt time.Time // time of the last line
	lastCount  int       // count in the last line
}

// lineInterval is the minimum time between plain lines, and before the first one.
const lineInterval = time.Second

// newProgress returns a progress for two terminal streams.
func (a *app) newProgress() *progress {
	if a.errTTY && a.output == asTable {
		return &progress{w: a.stderr}
	}
	return &progress{}
}

// newLineProgress returns a progress for slow operations without other output: without a terminal
// it prints lines.
func (a *app) newLineProgress() *progress {
	if p := a.newProgress(); p.isShown() {
		return p
	}
	return &progress{w: a.stderr, lines: true, lastLineAt: time.Now()}
}

// isShown reports whether the progress is visible.
func (p *progress) isShown() bool { return p.w != nil }

// barWidth is the width of the bar in characters.
const barWidth = 24

// update shows n of a total.
func (p *progress) update(n, of int, what string) {
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
	fmt.Fprintf(p.w, "\r\x1b[K%s%s %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), n, of, what)
	p.drawn = true
}

// message shows a text while there is no count.
func (p *progress) message(what string) {
	if p.w == nil || p.lines {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s …", what)
	p.drawn = true
}

// clear makes room for other output.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
