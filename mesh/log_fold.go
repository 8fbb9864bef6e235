package mesh

import (
	"container/list"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/shape"
)

const (
	// maxLookAhead bounds the search for an equal line.
	maxLookAhead = 256
	// maxOpenGroups and maxOpenLines bound the waiting groups, and the lines in them.
	maxOpenGroups = 4096
	maxOpenLines  = 1 << 16
	// quietFraction is the divisor of the window after which a line without match stops waiting.
	quietFraction = 5
)

// FoldLogs folds equal lines of several ranks of a mesh, as a stream with an endless window does.
func FoldLogs(extent shape.Extent, lines []LogLine) []LogLine {
	f := newLogFold(extent, extent.NumRanks(), time.Hour)
	for _, l := range lines {
		f.add(l, time.Time{})
	}
	return f.flush()
}

// logFold groups equal lines of several ranks, and lines that differ only in numbers. The lines of
// each rank keep their order.
type logFold struct {
	extent shape.Extent
	ranks  int           // in the region: a complete group is due
	window time.Duration // maximum wait of a group's first line; negative: no line waits
	groups *list.List    // of *logGroup
	last   map[int]*list.Element
	lines  int // in all groups
}

// logGroup is an equal line of one or more ranks.
type logGroup struct {
	pattern              string
	lines                []LogLine // one per rank
	startedAt, updatedAt time.Time
}

func newLogFold(extent shape.Extent, ranks int, window time.Duration) *logFold {
	return &logFold{
		extent: extent, ranks: ranks, window: window, groups: list.New(), last: map[int]*list.Element{},
	}
}

// step adds lines and returns the due ones. News of hosts are due at once.
func (f *logFold) step(lines []LogLine, now time.Time) (due []LogLine) {
	for _, l := range lines {
		if f.window < 0 || l.Rank < 0 || f.ranks == 1 {
			due = append(due, l)
		} else {
			f.add(l, now)
		}
	}
	return append(due, f.describe(f.ready(now))...)
}

// flush returns all lines.
func (f *logFold) flush() []LogLine { return f.describe(f.takeAll()) }

// add adds the next line of a rank. It joins the first equal line after the rank's last one, or
// waits as a new group.
func (f *logFold) add(l LogLine, now time.Time) {
	like := anyNumber.ReplaceAllLiteralString(l.Text, "#")
	from := f.groups.Front()
	if last := f.last[l.Rank]; last != nil {
		from = last.Next()
	}
	var equal, similar *list.Element
	for e, n := from, 0; e != nil && n < maxLookAhead && equal == nil; e, n = e.Next(), n+1 {
		switch g := e.Value.(*logGroup); {
		case g.lines[0].Stream != l.Stream || g.pattern != like:
		case g.lines[0].Text == l.Text:
			equal = e
		case similar == nil:
			similar = e
		}
	}
	e := equal
	if e == nil {
		e = similar
	}
	switch g := (&logGroup{pattern: like, startedAt: now}); {
	case e != nil:
	case from == nil:
		e = f.groups.PushBack(g)
	default:
		e = f.groups.InsertBefore(g, from)
	}
	g := e.Value.(*logGroup)
	g.lines = append(g.lines, l)
	g.updatedAt = now
	f.last[l.Rank] = e
	f.lines++
}

// ready removes and returns the due groups.
func (f *logFold) ready(now time.Time) (out []*logGroup) {
	full := func() bool { return f.groups.Len() > maxOpenGroups || f.lines > maxOpenLines }
	for e := f.groups.Front(); e != nil && (full() || !now.Before(f.deadline(e))); e = f.groups.Front() {
		out = append(out, f.remove(e))
	}
	return out
}

// takeAll removes and returns all groups.
func (f *logFold) takeAll() (out []*logGroup) {
	for e := f.groups.Front(); e != nil; e = f.groups.Front() {
		out = append(out, f.remove(e))
	}
	return out
}

// untilReady returns the time until a line is due, or an hour without lines.
func (f *logFold) untilReady(now time.Time) time.Duration {
	if e := f.groups.Front(); e != nil {
		return f.deadline(e).Sub(now)
	}
	return time.Hour
}

func (f *logFold) deadline(e *list.Element) time.Time {
	g := e.Value.(*logGroup)
	quiet, late := g.updatedAt.Add(f.window/quietFraction), g.startedAt.Add(f.window)
	if len(g.lines) >= f.ranks {
		return time.Time{}
	}
	if quiet.Before(late) {
		return quiet
	}
	return late
}

func (f *logFold) remove(e *list.Element) *logGroup {
	g := f.groups.Remove(e).(*logGroup)
	for _, l := range g.lines {
		if f.last[l.Rank] == e {
			delete(f.last, l.Rank)
		}
	}
	f.lines -= len(g.lines)
	return g
}

// describe returns one line for each group.
func (f *logFold) describe(groups []*logGroup) (out []LogLine) {
	for _, g := range groups {
		l := g.lines[0]
		if len(g.lines) > 1 {
			var ranks []int
			for _, same := range g.lines {
				ranks = append(ranks, same.Rank)
				l.Similar = l.Similar || same.Text != l.Text
			}
			l.Ranks = shape.Describe(extentWith(f.extent, slices.Max(ranks)), ranks)
			l.Count = len(g.lines)
		}
		if l.Similar {
			l.Text = g.mergedText()
		}
		out = append(out, l)
	}
	return out
}

// extentWith returns the extent of a mesh, with as many hosts as it had if a Shrink has removed a
// rank.
func extentWith(e shape.Extent, rank int) shape.Extent {
	dims := e.Dims()
	if rank < e.NumRanks() || len(dims) == 0 {
		return e
	}
	wide := shape.Of(dims[0].Label, 1+rank/(e.NumRanks()/dims[0].Size))
	for _, d := range dims[1:] {
		wide = wide.With(d.Label, d.Size)
	}
	return wide
}

// anyNumber matches the differences between similar lines.
var anyNumber = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)

// mergedText returns the first line, with each differing number as a range.
func (g *logGroup) mergedText() string {
	first := g.lines[0].Text
	least := anyNumber.FindAllString(first, -1)
	most := anyNumber.FindAllString(first, -1)
	for _, l := range g.lines[1:] {
		for i, text := range anyNumber.FindAllString(l.Text, -1) {
			if numericValue(text) < numericValue(least[i]) {
				least[i] = text
			}
			if numericValue(text) > numericValue(most[i]) {
				most[i] = text
			}
		}
	}
	var b strings.Builder
	rest := first
	for i, at := range anyNumber.FindAllStringIndex(first, -1) {
		begin := len(first) - len(rest)
		b.WriteString(rest[:at[0]-begin])
		b.WriteString(least[i])
		if most[i] != least[i] {
			b.WriteString("…" + most[i])
		}
		rest = first[at[1]:]
	}
	return b.String() + rest
}

func numericValue(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64) // a number out of range becomes infinite, good enough to compare
	return v
}
