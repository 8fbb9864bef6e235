package output

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	names "github.com/castnet-io/castnet/internal/text"
)

// Cut cuts a line to the width of the terminal.
func (out *Printer) Cut(line string) string {
	if out.Width == 0 {
		return line
	}
	return names.Shorten(line, out.Width)
}

// Println prints a line. On a terminal a long line continues below, indented, and breaks between
// words only.
func (out *Printer) Println(indent int, line string) error {
	if !out.OutTTY {
		_, err := fmt.Fprintln(out.Stdout, line)
		return err
	}
	_, err := fmt.Fprintln(out.Stdout, wrap(line, out.Width, indent))
	return err
}

// wrap breaks the lines of a text between words. Lines after the first are indented. Width 0 means
// no limit.
func wrap(line string, width, indent int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Split(line, " ") {
		n := text.StringWidthWithoutEscSequences(word)
		switch {
		case i == 0:
		case width > 0 && at+1+n > width && at > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
