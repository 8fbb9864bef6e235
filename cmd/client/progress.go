package main

import (
	"fmt"
	"io"
	"strings"
)

// progress is one line on a terminal's stderr that is drawn over itself; anywhere else it is
// nothing. It belongs to one goroutine.
type progress struct {
	w     io.Writer // nil: nobody looks
	drawn bool
}

// newProgress draws only where a person looks at both streams' terminal.
func (a *app) newProgress() *progress {
	if a.errTTY && a.output == asTable {
		return &progress{w: a.err}
	}
	return &progress{}
}

// shown reports whether somebody looks.
func (p *progress) shown() bool { return p.w != nil }

// barWidth is how many characters the bar has.
const barWidth = 24

// step shows that n of so many are done.
func (p *progress) step(n, of int, what string) {
	if p.w == nil || of < 1 {
		return
	}
	full := barWidth * n / of
	fmt.Fprintf(p.w, "\r\x1b[K%s%s %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), n, of, what)
	p.drawn = true
}

// say shows what is going on while there is nothing to count.
func (p *progress) say(what string) {
	if p.w == nil {
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
