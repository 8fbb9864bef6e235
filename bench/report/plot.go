package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Family is rows with one plot.
type Family struct {
	File, Title string
	Rows        []Label
}

// Label is the name of rows in a plot. Rows of several bases share a label: castnet's score is from
// the first.
type Label struct {
	Text string
	Rows []string
}

// The measures of a plot, in pixels.
const (
	width    = 760
	left     = 220 // of the labels
	right    = 110 // of the figures
	top      = 92
	line     = 20 // of a score
	between  = 16 // two labels
	axisRoom = 52
	radius   = 5
)

// style has a color for each kind of contender, on light pages and on dark ones.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#24292f}
.title{font-size:16px;font-weight:600}.soft{fill:#59636e}.label{font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1}.dot{stroke:none}.range{stroke-width:2;stroke-linecap:round}
.castnet{fill:#0969da;stroke:#0969da}.nats{fill:#bc4c00;stroke:#bc4c00}
.floor{fill:#59636e;stroke:#59636e}.peer{fill:#8250df;stroke:#8250df}
text.castnet,text.nats,text.floor,text.peer{stroke:none}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#3d444d}
.castnet{fill:#58a6ff;stroke:#58a6ff}.nats{fill:#f0883e;stroke:#f0883e}
.floor{fill:#9198a1;stroke:#9198a1}.peer{fill:#bc8cff;stroke:#bc8cff}}
</style>`

// mark is a score in a plot.
type mark struct {
	Score
	name, kind string
}

// group is a label with its marks.
type group struct {
	text  string
	marks []mark
}

// Plot draws the rows of a family as dots on a logarithmic axis, each with the range of its repeats.
// It is "" without any of them.
func Plot(f Family, rows []Row) (string, error) {
	groups, unit, err := f.groups(rows)
	if err != nil || len(groups) == 0 {
		return "", err
	}
	low, high := math.Inf(1), math.Inf(-1)
	height := top + axisRoom
	for _, g := range groups {
		height += len(g.marks)*line + between
		for _, m := range g.marks {
			low, high = min(low, m.Min), max(high, m.Max)
		}
	}
	a := newAxis(low, high)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s\n", html.EscapeString(f.Title), style)
	better := "less is better"
	if strings.HasSuffix(unit, "/s") {
		better = "more is better"
	}
	text(&b, 16, 28, "title", "start", f.Title)
	text(&b, 16, 48, "soft", "start", fmt.Sprintf("%s, %s; the dot is the median, the line the range", spelled(unit), better))
	legend(&b, groups)
	bottom := height - axisRoom + 6
	for _, t := range a.ticks() {
		x := a.at(t)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", x, top-12, x, bottom)
		text(&b, x, float64(bottom+18), "soft", "middle", tickText(t))
	}
	text(&b, (left+width-right)/2, float64(bottom+38), "soft", "middle", spelled(unit)+", logarithmic")
	y := float64(top)
	for _, g := range groups {
		text(&b, 16, y+4, "label", "start", g.text)
		for _, m := range g.marks {
			fmt.Fprintf(&b, `<line class="range %s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", m.kind, a.at(m.Min), y,
				a.at(m.Max), y)
			fmt.Fprintf(&b, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="%d"/>`+"\n", m.kind, a.at(m.Median), y, radius)
			text(&b, left-12, y+4, m.kind, "end", m.name)
			text(&b, width-16, y+4, m.kind, "end", Figure(m.Median))
			y += line
		}
		y += between
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// groups finds the scores of each label.
func (f Family) groups(rows []Row) (groups []group, unit string, err error) {
	for _, l := range f.Rows {
		g := group{text: l.Text}
		for _, name := range l.Rows {
			i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
			if i < 0 {
				continue
			}
			r := rows[i]
			if unit != "" && r.Unit != unit {
				return nil, "", fmt.Errorf("plot %s: row %s is in %s, others in %s", f.File, r.Name, r.Unit, unit)
			}
			unit = r.Unit
			scores := r.Scores
			if len(g.marks) > 0 {
				scores = scores[1:]
			}
			for _, s := range scores {
				name, kind := contender(s.Name)
				g.marks = append(g.marks, mark{s, name, kind})
			}
		}
		if len(g.marks) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, unit, nil
}

// contender is the name of a contender in plots, and its kind.
func contender(name string) (shown, kind string) {
	switch {
	case name == Ours:
		return "castnet", "castnet"
	case name == "mutexq":
		return "floor", "floor"
	case strings.HasPrefix(name, "nats"):
		return "raw NATS", "nats"
	case strings.HasPrefix(name, "no-"):
		return strings.ReplaceAll(name, "-", " "), "floor"
	}
	library, version, _ := strings.Cut(name, "@")
	if _, variant, ok := strings.Cut(version, "/"); ok {
		library += " " + variant
	}
	return library, "peer"
}

// legend explains the colors of a plot.
func legend(b *strings.Builder, groups []group) {
	x := 16.0
	for _, k := range []struct{ kind, text string }{
		{"castnet", "castnet"}, {"nats", "raw NATS"}, {"floor", "floor"}, {"peer", "other libraries"},
	} {
		if !slices.ContainsFunc(groups, func(g group) bool {
			return slices.ContainsFunc(g.marks, func(m mark) bool { return m.kind == k.kind })
		}) {
			continue
		}
		fmt.Fprintf(b, `<circle class="dot %s" cx="%.1f" cy="64" r="%d"/>`+"\n", k.kind, x+radius, radius)
		text(b, x+16, 68, "soft", "start", k.text)
		x += 34 + 7.2*float64(len(k.text))
	}
}

func text(b *strings.Builder, x, y float64, class, anchor, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor,
		html.EscapeString(s))
}

// spelled is a unit in words.
func spelled(unit string) string {
	switch unit {
	case "us":
		return "µs"
	case "msgs/s":
		return "messages per second"
	case "asks/s":
		return "asks per second"
	case "casts/s":
		return "casts per second"
	}
	return unit
}

// axis maps values to pixels, logarithmically.
type axis struct{ low, high float64 }

// newAxis spans the values, with room at both ends.
func newAxis(low, high float64) axis {
	const least, room = 1e-3, 1.15
	low = max(low, least)
	return axis{low / room, max(high, low) * room}
}

func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	const span = width - left - right
	return left + span*math.Log(v/a.low)/math.Log(a.high/a.low)
}

// ticks are the round values on the axis: 1, 2 and 5 of each decade, or only the decades when there
// are many.
func (a axis) ticks() []float64 {
	const many = 8
	var steps []float64
	for _, of := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		steps = steps[:0]
		for e := math.Floor(math.Log10(a.low)); e <= math.Log10(a.high); e++ {
			for _, s := range of {
				if v := s * math.Pow(10, e); v >= a.low && v <= a.high {
					steps = append(steps, v)
				}
			}
		}
		if len(steps) <= many {
			break
		}
	}
	return steps
}

// tickText is a value on the axis.
func tickText(v float64) string {
	switch {
	case v >= 1e6:
		return strings.TrimSuffix(fmt.Sprintf("%.4g", v/1e6), ".0") + " M"
	case v >= 1e3:
		return fmt.Sprintf("%.4g k", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
