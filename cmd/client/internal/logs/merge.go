package logs

import (
	"container/list"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

const (
	// maxLookAhead bounds the search for an equal line, and maxOpenGroups the waiting groups.
	maxLookAhead  = 256
	maxOpenGroups = 4096
	// quietFraction is the divisor of the window after which a line without match stops waiting.
	quietFraction = 5
)

// rowGrouper groups equal lines of several ranks, and lines that differ only in numbers. The lines
// of each rank keep their order.
type rowGrouper struct {
	ranks  int           // in the region: a complete group is due
	window time.Duration // maximum wait of a group's first line
	groups *list.List    // of *rowGroup
	last   map[int]*list.Element
}

// rowGroup is an equal line of one or more ranks.
type rowGroup struct {
	stream, pattern      string
	records              []Record // one per rank
	startedAt, updatedAt time.Time
}

func newRowGrouper(ranks int, window time.Duration) *rowGrouper {
	return &rowGrouper{ranks: ranks, window: window, groups: list.New(), last: map[int]*list.Element{}}
}

// add adds the next line of a rank. It joins the first equal line after the rank's last one, or
// waits as a new group.
func (m *rowGrouper) add(r Record, now time.Time) {
	like := anyNumber.ReplaceAllLiteralString(r.Line, "#")
	from := m.groups.Front()
	if last := m.last[r.Rank]; last != nil {
		from = last.Next()
	}
	var equal, similar *list.Element
	for e, n := from, 0; e != nil && n < maxLookAhead && equal == nil; e, n = e.Next(), n+1 {
		switch g := e.Value.(*rowGroup); {
		case g.stream != r.Stream || g.pattern != like:
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
	switch g := (&rowGroup{stream: r.Stream, pattern: like, startedAt: now}); {
	case e != nil:
	case from == nil:
		e = m.groups.PushBack(g)
	default:
		e = m.groups.InsertBefore(g, from)
	}
	g := e.Value.(*rowGroup)
	g.records = append(g.records, r)
	g.updatedAt = now
	m.last[r.Rank] = e
}

// ready removes and returns the due groups.
func (m *rowGrouper) ready(now time.Time) (out []*rowGroup) {
	for e := m.groups.Front(); e != nil &&
		(m.groups.Len() > maxOpenGroups || !now.Before(m.deadline(e))); e = m.groups.Front() {
		out = append(out, m.remove(e))
	}
	return out
}

// takeAll removes and returns all groups.
func (m *rowGrouper) takeAll() (out []*rowGroup) {
	for e := m.groups.Front(); e != nil; e = m.groups.Front() {
		out = append(out, m.remove(e))
	}
	return out
}

// untilReady returns the time until a group is due, or an hour without groups.
func (m *rowGrouper) untilReady(now time.Time) time.Duration {
	if e := m.groups.Front(); e != nil {
		return m.deadline(e).Sub(now)
	}
	return time.Hour
}

func (m *rowGrouper) deadline(e *list.Element) time.Time {
	g := e.Value.(*rowGroup)
	quiet, late := g.updatedAt.Add(m.window/quietFraction), g.startedAt.Add(m.window)
	if len(g.records) >= m.ranks {
		return time.Time{}
	}
	if quiet.Before(late) {
		return quiet
	}
	return late
}

func (m *rowGrouper) remove(e *list.Element) *rowGroup {
	g := m.groups.Remove(e).(*rowGroup)
	for _, r := range g.records {
		if m.last[r.Rank] == e {
			delete(m.last, r.Rank)
		}
	}
	return g
}

// describeRanks names the ranks of a group in target syntax.
func (g *rowGroup) describeRanks(base shape.Extent) string {
	if len(g.records) == 1 {
		return g.records[0].Point
	}
	one := func(Record) bool { return true } // equal lines are one group
	return inspect.GroupRanks(base, g.records, func(r Record) int { return r.Rank }, one)[0].Region
}

// describeLines returns the number of lines and one that represents all.
func (g *rowGroup) describeLines() (count, line string) {
	line = g.records[0].Line
	same := true
	for _, r := range g.records {
		same = same && r.Line == line
	}
	switch n := len(g.records); {
	case n == 1:
		return "", line
	case same:
		return fmt.Sprintf("%d×", n), line
	default:
		return fmt.Sprintf("[%d similar lines]", n), g.mergedLine()
	}
}

// anyNumber matches the differences between similar lines.
var anyNumber = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)

// mergedLine returns the first line, with each differing number as a range.
func (g *rowGroup) mergedLine() string {
	least := anyNumber.FindAllString(g.records[0].Line, -1)
	most := anyNumber.FindAllString(g.records[0].Line, -1)
	for _, r := range g.records[1:] {
		for i, text := range anyNumber.FindAllString(r.Line, -1) {
			if numericValue(text) < numericValue(least[i]) {
				least[i] = text
			}
			if numericValue(text) > numericValue(most[i]) {
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

func numericValue(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64) // a number out of range becomes infinite, good enough to compare
	return v
}
