package main

import (
	"container/list"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/mesh/shape"
)

const (
	// mergeAhead is how far a line looks for one like it, and mergeRoom how many wait at most.
	mergeAhead = 256
	mergeRoom  = 4096
	// quietParts is the part of a window after which a line that nobody has joined waits no more.
	quietParts = 5
)

// merger folds lines that several ranks print alike: equal ones, and such that differ in numbers.
// What it gives back has the lines of each rank in their order.
type merger struct {
	ranks  int           // of the region: what all have printed waits for nobody
	window time.Duration // that the first of a group waits at most
	open   *list.List    // of *group
	last   map[int]*list.Element
}

// group is a line of one rank or more.
type group struct {
	stream, like string
	records      []logRecord // one a rank
	begun, grown time.Time
}

func newMerger(ranks int, window time.Duration) *merger {
	return &merger{ranks: ranks, window: window, open: list.New(), last: map[int]*list.Element{}}
}

// add takes the next line of a rank. It joins the first line like it behind the rank's last one, or
// waits there for others.
func (m *merger) add(r logRecord, now time.Time) {
	like := anyNumber.ReplaceAllLiteralString(r.Line, "#")
	from := m.open.Front()
	if last := m.last[r.Rank]; last != nil {
		from = last.Next()
	}
	var equal, similar *list.Element
	for e, n := from, 0; e != nil && n < mergeAhead && equal == nil; e, n = e.Next(), n+1 {
		switch g := e.Value.(*group); {
		case g.stream != r.Stream || g.like != like:
		case g.records[0].Line == r.Line:
			equal = e
		case similar == nil:
			similar = e
		}
	}
	e := equal
	if e == nil {
		e = similar
	}
	switch g := (&group{stream: r.Stream, like: like, begun: now}); {
	case e != nil:
	case from == nil:
		e = m.open.PushBack(g)
	default:
		e = m.open.InsertBefore(g, from)
	}
	g := e.Value.(*group)
	g.records, g.grown = append(g.records, r), now
	m.last[r.Rank] = e
}

// ready takes out what need not wait any more.
func (m *merger) ready(now time.Time) (out []*group) {
	for e := m.open.Front(); e != nil && (m.open.Len() > mergeRoom || !now.Before(m.due(e))); e = m.open.Front() {
		out = append(out, m.take(e))
	}
	return out
}

// rest takes out everything.
func (m *merger) rest() (out []*group) {
	for e := m.open.Front(); e != nil; e = m.open.Front() {
		out = append(out, m.take(e))
	}
	return out
}

// wait is how long ready has nothing more to give; nothing open is for ever.
func (m *merger) wait(now time.Time) time.Duration {
	if e := m.open.Front(); e != nil {
		return m.due(e).Sub(now)
	}
	return time.Hour
}

func (m *merger) due(e *list.Element) time.Time {
	g := e.Value.(*group)
	quiet, late := g.grown.Add(m.window/quietParts), g.begun.Add(m.window)
	switch {
	case len(g.records) >= m.ranks:
		return time.Time{}
	case quiet.Before(late):
		return quiet
	}
	return late
}

func (m *merger) take(e *list.Element) *group {
	g := m.open.Remove(e).(*group)
	for _, r := range g.records {
		if m.last[r.Rank] == e {
			delete(m.last, r.Rank)
		}
	}
	return g
}

// who names the ranks of a group in the syntax of targets.
func (g *group) who(base shape.Extent) string {
	if len(g.records) == 1 {
		return g.records[0].Point
	}
	ranks := make([]int, len(g.records))
	for i, r := range g.records {
		ranks[i] = r.Rank
	}
	return shape.Describe(base, ranks)
}

// what is how many lines there are, and one that stands for all.
func (g *group) what() (count, line string) {
	line, same := g.records[0].Line, true
	for _, r := range g.records {
		same = same && r.Line == line
	}
	switch n := len(g.records); {
	case n == 1:
		return "", line
	case same:
		return fmt.Sprintf("%d×", n), line
	default:
		return fmt.Sprintf("[%d similar lines]", n), g.span()
	}
}

// anyNumber is what may differ in similar lines.
var anyNumber = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)

// span is the first line with each number that differs as the smallest and the largest.
func (g *group) span() string {
	least := anyNumber.FindAllString(g.records[0].Line, -1)
	most := anyNumber.FindAllString(g.records[0].Line, -1)
	for _, r := range g.records[1:] {
		for i, text := range anyNumber.FindAllString(r.Line, -1) {
			if sizeOf(text) < sizeOf(least[i]) {
				least[i] = text
			}
			if sizeOf(text) > sizeOf(most[i]) {
				most[i] = text
			}
		}
	}
	var b strings.Builder
	rest := g.records[0].Line
	for i, at := range anyNumber.FindAllStringIndex(rest, -1) {
		begin := len(g.records[0].Line) - len(rest)
		b.WriteString(rest[:at[0]-begin])
		b.WriteString(least[i])
		if most[i] != least[i] {
			b.WriteString("…" + most[i])
		}
		rest = g.records[0].Line[at[1]:]
	}
	return b.String() + rest
}

func sizeOf(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64) // one out of range is infinite, which compares well enough
	return v
}
