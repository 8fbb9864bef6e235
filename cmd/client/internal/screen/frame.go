package screen

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
)

// frame draws the screen: a line of the width of the terminal for each of its lines (SCR-4).
func (s state) frame() string {
	lines := append([]string{s.title()}, s.banners()...)
	switch {
	case s.help:
		lines = append(lines, s.helpLines()...)
	case s.detail != nil:
		lines = append(lines, "")
		lines = append(lines, s.visibleDetail()...)
	default:
		lines = append(lines, s.header())
		for _, r := range s.visibleRows() {
			lines = append(lines, s.drawRow(r))
		}
		if len(s.rows) == 0 {
			lines = append(lines, paint(faint, s.emptyNote()))
		}
	}
	above := s.height - 1
	if !s.help {
		above -= s.paneSpace()
	}
	lines = lines[:min(len(lines), max(0, above))]
	for len(lines) < above {
		lines = append(lines, "")
	}
	if !s.help && s.paneSpace() > 0 {
		lines = append(lines, s.paneLines()...)
	}
	lines = append(lines, s.footer())
	lines = lines[max(0, len(lines)-s.height):]
	for i, l := range lines {
		lines[i] = pad(ansi.Truncate(l, s.width, "…"), s.width)
	}
	return strings.Join(lines, "\n")
}

// bodyTop is the first line of the tree.
func (s state) bodyTop() int { return 2 + len(s.banners()) }

// bodyHeight is the number of lines of the tree.
func (s state) bodyHeight() int { return max(1, s.height-s.bodyTop()-s.paneSpace()-1) }

// title counts hosts and ranks.
func (s state) title() string {
	left := "castnet top"
	if s.scope != "" {
		left += " " + s.scope
	}
	if s.sampled {
		hosts, ranks := len(s.sample.Hosts), len(s.sample.Procs)
		left += "  " + text.Pluralize(hosts, "host") + ", " + text.Pluralize(ranks, "rank")
	}
	statuses := slices.SortedFunc(maps.Keys(s.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(severity(b), severity(a)), strings.Compare(a, b))
	})
	counts := ""
	for i, status := range statuses {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		counts += sep + s.tintStatus(status, fmt.Sprintf("%d %s", s.counts[status], status))
	}
	right := "by host"
	if s.group == byMesh {
		right = "by mesh"
	}
	if s.sampled {
		right += "  " + s.clock(s.sample.At)
	}
	l := paint(bold, fit(left, min(ansi.StringWidth(clean(left)), s.width))) + counts
	if room := s.width - ansi.StringWidth(l); room > ansi.StringWidth(right)+1 {
		l += fitRight(right, room)
	}
	return l
}

// banners are lines about trouble (SCR-3).
func (s state) banners() (lines []string) {
	switch {
	case !s.broken.since.IsZero():
		lines = append(lines, s.tint(output.Red, paint(reverse, fmt.Sprintf(
			" BUS LOST for %s: trying again. All numbers are old. ", text.Age(s.now.Sub(s.broken.since))))))
	case s.stale != nil && s.sampled:
		lines = append(lines, s.tint(output.Red, fmt.Sprintf(
			"STALE, %s old: %s", text.Age(s.now.Sub(s.sample.At)), clean(s.stale.Error()))))
	case s.stale != nil:
		lines = append(lines, s.tint(output.Red, "NO DATA: "+clean(s.stale.Error())))
	case s.sample.Missing != nil:
		lines = append(lines, s.tint(output.Yellow, clean(s.sample.Missing.Error())))
	}
	if s.scope != "" && s.seen && s.sampled && len(s.sample.Procs) == 0 {
		lines = append(lines, paint(bold, clean(s.scope)+" HAS ENDED: none of its ranks is left."))
	}
	return lines
}

func (s state) emptyNote() string {
	switch {
	case !s.sampled:
		return "waiting for the first sample"
	case s.filter == troubledRanks:
		return "no trouble: every host answers, and every rank runs (f shows others)"
	case s.filter == busyRanks:
		return "no rank is busy (f shows others)"
	}
	return "no ranks: `castnet up demo --per-host gpu=4` starts some"
}

// column is a column of the tree beside the name.
type column struct {
	title    string
	width    int
	minWidth int // of the terminal
	left     bool
	cell     func(s state, r row) string
}

func columns() []column {
	asked := func(cell func(row) string) func(state, row) string {
		return func(_ state, r row) string {
			if r.unasked || r.host != nil && r.host.State != agent.HostAlive {
				return "-"
			}
			return cell(r)
		}
	}
	return []column{
		{"STATUS", 9, 0, true, func(_ state, r row) string { return r.status }},
		{"MSG/S", 6, 0, false, asked(func(r row) string { return formatRate(r.Rate) })},
		{"QUEUED", 7, 0, false, asked(func(r row) string { return count(uint64(r.Queued)) })},
		{"LATENCY", 8, 0, false, asked(func(r row) string { return formatLatency(r.latency) })},
		{"CPU", 5, 0, false, func(_ state, r row) string {
			if r.Memory == 0 { // every process has some
				return "-"
			}
			return fmt.Sprintf("%.0f%%", r.CPU)
		}},
		{"MEM", 6, 0, false, func(_ state, r row) string { return text.Size(r.Memory) }},
		{"RST", 3, 0, false, func(_ state, r row) string {
			if r.actor != nil || r.restarts == 0 {
				return "-"
			}
			return count(uint64(r.restarts))
		}},
		{"HANDLED", 8, 100, false, asked(func(r row) string { return count(r.Handled) })},
		{"CURRENT", 24, 120, true, func(_ state, r row) string { return r.current }},
	}
}

// shownColumns returns the columns that the terminal has room for, and the width of the name.
func (s state) shownColumns() (shown []column, name int) {
	name = s.width
	for _, c := range columns() {
		if s.width >= c.minWidth {
			shown = append(shown, c)
			name -= c.width + s.gap()
		}
	}
	for len(shown) > 1 && name < 16 { // a narrow terminal: the last columns go first
		last := shown[len(shown)-1]
		shown = shown[:len(shown)-1]
		name += last.width + s.gap()
	}
	if over := name - maxName; over > 0 && s.width >= 120 {
		shown[len(shown)-1].width += over // else the numbers would stand far from their names
		name = maxName
	}
	return shown, max(name, 4)
}

// maxName is the widest name on a wide terminal.
const maxName = 52

// gap is the space between columns.
func (s state) gap() int {
	if s.width >= 100 {
		return 2
	}
	return 1
}

// header names the columns. The order has a mark.
func (s state) header() string {
	shown, name := s.shownColumns()
	by := s.sorting().column
	title := func(t string, width int, left bool) string {
		cell := t
		if t == by {
			cell += "▾"
		}
		if left {
			cell = fit(cell, width)
		} else {
			cell = fitRight(cell, width)
		}
		if t == by {
			return paint(bold, cell)
		}
		return paint(faint, cell)
	}
	l := title("NAME", name, true)
	for _, c := range shown {
		l += strings.Repeat(" ", s.gap()) + title(c.title, c.width, c.left)
	}
	return l
}

// drawRow draws a row of the tree.
func (s state) drawRow(r row) string {
	shown, width := s.shownColumns()
	mark := "▸ "
	if r.isOpen {
		mark = "▾ "
	}
	if r.leaf {
		mark = "  "
	}
	name := strings.Repeat("  ", r.depth) + mark + r.name
	if !r.isOpen {
		name += r.size()
	}
	selected := r.key == s.cursor && !s.focused
	cells := []string{fitMiddle(name, width)}
	if s.matches(r) && !selected {
		cells[0] = paint(bold, cells[0])
	}
	for i, c := range shown {
		cell := c.cell(s, r)
		if c.left {
			cell = fit(cell, c.width)
		} else {
			cell = fitRight(cell, c.width)
		}
		if i == 0 && !selected {
			cell = s.tintStatus(r.status, cell)
		}
		cells = append(cells, cell)
	}
	l := strings.Join(cells, strings.Repeat(" ", s.gap()))
	if selected {
		return paint(reverse, l)
	}
	if r.key == s.cursor {
		return paint(bold, l)
	}
	return l
}

// footer names the keys, as many as fit.
func (s state) footer() string {
	if s.typing {
		return "/" + clean(s.search) + "▏ " + paint(faint, "Enter keeps it, Esc drops it, n and N go on")
	}
	type hint struct{ key, what string }
	filtered := "filter"
	if s.filter != allRanks {
		filtered = "ONLY " + strings.ToUpper(s.filter.String())
	}
	hints := []hint{
		{"↑↓→←", "move"}, {"⏎", "rank"}, {"l", "logs"}, {"e", "events"}, {"f", filtered}, {"s", "sort"},
		{"/", "search"}, {"?", "help"}, {"q", "quit"}, {"t", "hosts or meshes"}, {"tab", "scroll"}, {"m", "mouse"},
	}
	switch {
	case s.help:
		hints = []hint{{"any key", "back"}}
	case s.focused:
		hints = []hint{{"↑↓", "scroll"}, {"end", "follow"}, {"tab", "back"}, {"q", "quit"}}
	case s.detail != nil:
		scroll := "scroll"
		if more := len(s.detailLines()) - s.detail.scroll - s.bodyHeight(); more > 0 {
			scroll = fmt.Sprintf("scroll, %d more", more)
		}
		hints = []hint{
			{"↑↓", scroll}, {"l", "logs"}, {"e", "events"}, {"tab", "pane"}, {"esc", "back"}, {"?", "help"},
			{"q", "quit"},
		}
	}
	l := ""
	for _, h := range hints {
		one := paint(bold, h.key) + " " + h.what
		if l != "" {
			one = "  " + one
		}
		if ansi.StringWidth(l)+ansi.StringWidth(one) > s.width {
			break
		}
		l += one
	}
	return l
}

// helpLines explain keys and words.
func (s state) helpLines() []string {
	lines := []string{
		"",
		"↑ ↓ PgUp PgDn Home End  move               e    events, below the tree",
		"→ ←   + -               open, close; all   l    live output of a rank or mesh",
		"Enter                   a rank: process,   Tab  scroll the lines below;",
		"                        actors, failure         End follows them again",
		"s S                     next, last order   t    hosts or meshes as roots",
		"f                       trouble, busy, all m    mouse: wheel and click",
		"/ n N                   search, next, last Ctrl-L redraw, Ctrl-Z suspend",
		"Esc                     back               q    or Ctrl-C: quit",
		"",
		"MSG/S    messages handled in a second      RST  restarts of the rank",
		"QUEUED   messages in mailboxes             CPU  percent of one CPU",
		"LATENCY  mean time from mailbox to end of handler, of the slowest actor",
		"",
		"silent   the process runs, but does not answer",
		"suspect  the host misses heartbeats; dead: it is given up; unknown: no news",
		"STALE    the last sample failed: the numbers are older",
	}
	if s.sample.Partial {
		lines = append(lines, "",
			"There are many ranks: those on the screen are asked for their messages. Orders",
			"by MSG/S, QUEUED, LATENCY and HANDLED are by name instead.")
	}
	return lines
}

// count shortens a number to five digits.
func count(n uint64) string {
	switch {
	case n < 100_000:
		return strconv.FormatUint(n, 10)
	case n < 10_000_000:
		return strconv.FormatUint(n/1000, 10) + "k"
	case n < 10_000_000_000:
		return strconv.FormatUint(n/1_000_000, 10) + "M"
	}
	return strconv.FormatUint(n/1_000_000_000, 10) + "G"
}

// formatRate formats messages per second.
func formatRate(r float64) string {
	if r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return count(uint64(r))
}

// formatLatency formats a short duration in three digits.
func formatLatency(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Microsecond), 'g', 3, 64) + "µs"
	case d < time.Second:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'g', 3, 64) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + "s"
	}
	return text.Age(d)
}
