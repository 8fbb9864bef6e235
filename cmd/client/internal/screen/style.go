package screen

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

// Attributes of text. They are shown without colours, too.
const (
	bold    = 1
	faint   = 2
	reverse = 7
)

// paint gives a text an attribute.
func paint(attribute int, s string) string { return fmt.Sprintf("\x1b[%dm%s\x1b[0m", attribute, s) }

// tint colours a text, if colours are on. Colours are those of the terminal's own palette, so that
// light and dark terminals show them well.
func (s state) tint(c output.Colour, text string) string {
	if !s.color {
		return text
	}
	return paint(int(c), text)
}

// tintStatus colours a text, which comes from the bus, by a status.
func (s state) tintStatus(status, text string) string {
	text = clean(text)
	switch status {
	case agent.Running.String(), agent.HostAlive:
		return s.tint(output.Green, text)
	case agent.Failed.String(), agent.HostDead:
		return s.tint(output.Red, text)
	case agent.Stopped.String(), "":
		return paint(faint, text)
	}
	return s.tint(output.Yellow, text)
}

// clock formats a time of day, where the input of the screen is.
func (s state) clock(at time.Time) string { return at.In(s.now.Location()).Format(time.TimeOnly) }

// clean makes a text from the bus harmless to a terminal (SCR-4).
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, ansi.Strip(s))
}

// fit returns a clean text of exactly width columns. It cuts the end.
func fit(s string, width int) string { return pad(ansi.Truncate(clean(s), width, "…"), width) }

// fitMiddle is fit for names, which mostly differ at their ends: it cuts the middle.
func fitMiddle(s string, width int) string {
	s = clean(s)
	if over := ansi.StringWidth(s) - width; over > 0 && width > 1 {
		head := width / 2
		s = ansi.Truncate(s, head, "") + "…" + ansi.TruncateLeft(s, over+head+1, "")
	}
	return fit(s, width)
}

// fitRight is fit for numbers, on the right.
func fitRight(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(s))) + s
}

// pad fills a text with attributes up to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}
