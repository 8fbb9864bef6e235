package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is one line on a terminal's stderr that is drawn over itself; anywhere else it is
// nothing, or plain lines. It belongs to one goroutine.
type progress struct {
	w     io.Writer // nil: nobody looks
	drawn bool

	plain   bool      // a line for each news, so often at most
	since   time.Time // the last line
	counted int       // as it said
}

// plainEvery is the least time between two plain lines, and before the first: what is over sooner needs none.
const plainEvery = time.Second

// newProgress draws only where a person looks at both streams' terminal.
func (a *app) newProgress() *progress {
	if a.errTTY && a.output == asTable {
		return &progress{w: a.err}
	}
	return &progress{}
}

// newPlainProgress is for what takes long, and has nothing else to show of itself: where there is no terminal, it is lines.
func (a *app) newPlainProgress() *progress {
	if p := a.newProgress(); p.shown() {
		return p
	}
	return &progress{w: a.err, plain: true, since: time.Now()}
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
	if p.plain {
		if n != p.counted && time.Since(p.since) >= plainEvery {
			p.since, p.counted = time.Now(), n
			fmt.Fprintf(p.w, "%d/%d %s\n", n, of, what)
		}
		return
	}
	full := barWidth * n / of
	fmt.Fprintf(p.w, "\r\x1b[K%s%s %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), n, of, what)
	p.drawn = true
}

// say shows what is going on while there is nothing to count.
func (p *progress) say(what string) {
	if p.w == nil || p.plain {
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
