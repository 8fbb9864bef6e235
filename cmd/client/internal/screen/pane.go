package screen

import (
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
)

// minHeight is the height of a terminal with room for a pane.
const minHeight = 14

// paneHeight is the number of lines of the pane, without its title: at most half the screen, if the
// lines above leave it free.
func (s state) paneHeight() int {
	if s.focused {
		return s.height / 2
	}
	above := len(s.rows)
	if s.detail != nil {
		above = len(s.detailLines())
	}
	free := s.height - s.bodyTop() - above - 3
	return max(s.height/4, 4, min(free, s.height/2))
}

// paneSpace is the number of lines that the pane takes.
func (s state) paneSpace() int {
	if s.pane == noPane || s.height < minHeight {
		return 0
	}
	return s.paneHeight() + 1
}

// paneLength is the number of lines that the pane can show.
func (s state) paneLength() int {
	if s.pane == logPane {
		return len(s.log.lines)
	}
	return len(s.events)
}

// paneLines draws the pane with its title.
func (s state) paneLines() []string {
	title := "events"
	if s.pane == logPane {
		title = "output of " + s.log.of.String()
	}
	if s.back > 0 {
		title += fmt.Sprintf(" · %d newer", s.back)
	} else if s.focused {
		title += " · follows"
	}
	rule := fit("── "+title+" ", s.width)
	if text := strings.TrimRight(rule, " "); len(text) < len(rule) {
		rule = text + " " + strings.Repeat("─", len(rule)-len(text)-1)
	}
	if s.focused {
		rule = paint(bold, rule)
	} else {
		rule = paint(faint, rule)
	}
	lines := []string{rule}
	end := max(0, s.paneLength()-s.back)
	for i := max(0, end-s.paneHeight()); i < end; i++ {
		if s.pane == logPane {
			lines = append(lines, s.drawLine(s.log.lines[i]))
		} else {
			lines = append(lines, s.drawEvent(s.events[i]))
		}
	}
	if len(lines) == 1 {
		lines = append(lines, paint(faint, s.paneNote()))
	}
	for len(lines) <= s.paneHeight() {
		lines = append(lines, "")
	}
	return lines
}

// paneNote says why a pane is empty.
func (s state) paneNote() string {
	switch {
	case s.pane == eventPane:
		return "no events yet"
	case s.log.of == logTarget{}:
		return "select a rank or a mesh, and press l"
	case s.log.err != "":
		return "no output: " + clean(s.log.err)
	}
	return "no output yet"
}

func (t logTarget) String() string {
	if t == (logTarget{}) {
		return "no rank"
	}
	if t.point == "" {
		return text.Label(t.mesh)
	}
	return text.Label(t.mesh) + "[" + t.point + "]"
}

func (s state) drawEvent(e eventLine) string {
	l := s.clock(e.at) + " " + clean(e.subject)
	if e.status != "" {
		l += " " + s.tintStatus(e.status, clean(e.status))
	}
	if e.reason != "" {
		l += ": " + clean(e.reason)
	}
	return l
}

func (s state) drawLine(l logLine) string {
	line := clean(l.text)
	if l.bad {
		line = s.tint(output.Yellow, line)
	}
	if l.point != "" && s.log.of.rank < 0 {
		line = paint(faint, "["+clean(l.point)+"]") + " " + line
	}
	if !l.at.IsZero() {
		line = paint(faint, s.clock(l.at)) + " " + line
	}
	return line
}
