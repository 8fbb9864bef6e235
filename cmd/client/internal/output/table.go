package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	names "github.com/castnet-io/castnet/internal/text"
)

const (
	// columnGap separates the columns of a table.
	columnGap = "  "
	// minColumn is the width to which a column is cut at most.
	minColumn = 6
)

// terminalTable prints a table for terminals, with a rule below the header. It omits columns
// without a value. A table that is too wide shows IDs by their labels, then the reasons below their
// rows, and cuts the widest cells at last: a row takes one line, and no word is broken.
func terminalTable(w io.Writer, width int, columns []string, rows [][]string) error {
	t := &sheet{columns: columns, rows: rows, width: width}
	t.dropEmpty()
	if !t.fits() {
		t.useLabels()
	}
	if !t.fits() {
		t.moveReasonBelow()
	}
	widths := t.cutWidths()
	var b strings.Builder
	header := make([]string, len(t.columns))
	rule := len(columnGap) * (len(widths) - 1)
	for i, c := range t.columns {
		header[i] = strings.ToUpper(c)
		rule += widths[i]
	}
	b.WriteString(formatRow(header, widths) + "\n" + strings.Repeat("─", rule) + "\n")
	for i, r := range t.rows {
		b.WriteString(formatRow(r, widths) + "\n")
		if t.below != nil && t.below[i] != "-" {
			b.WriteString(wrap("    "+t.below[i], width, 4) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func formatRow(cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		if cellWidth(c) > widths[i] {
			c = cutCell(c, widths[i])
		}
		b.WriteString(text.Pad(c, widths[i], ' ') + columnGap)
	}
	return strings.TrimRight(b.String(), " ")
}

// cutCell cuts the middle of a cell, because labels and points mostly differ at their ends, and the
// end of a number.
func cutCell(cell string, width int) string {
	runes := []rune(cell)
	if unicode.IsDigit(runes[0]) || len(runes) != cellWidth(cell) {
		return text.Snip(cell, width, "…")
	}
	tail := width / 2
	return string(runes[:width-tail-1]) + "…" + string(runes[len(runes)-tail:])
}

func cellWidth(cell string) int { return text.StringWidthWithoutEscSequences(cell) }

// sheet is a table that is fitted to a terminal.
type sheet struct {
	columns []string
	rows    [][]string
	below   []string // the reasons, if they stand below their rows
	width   int      // 0: no limit
}

// widths returns the widths of the columns, and the total with gaps.
func (t *sheet) widths() (widths []int, total int) {
	widths = make([]int, len(t.columns))
	total = len(columnGap) * (len(t.columns) - 1)
	for i, c := range t.columns {
		widths[i] = cellWidth(c)
		for _, r := range t.rows {
			widths[i] = max(widths[i], cellWidth(r[i]))
		}
		total += widths[i]
	}
	return widths, total
}

func (t *sheet) fits() bool {
	_, total := t.widths()
	return t.width == 0 || total <= t.width
}

// cutWidths returns the widths that fit, the widest columns cut.
func (t *sheet) cutWidths() []int {
	widths, total := t.widths()
	for ; t.width > 0 && total > t.width; total-- {
		widest := 0
		for i := range widths {
			if widths[i] >= widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minColumn {
			break
		}
		widths[widest]--
	}
	return widths
}

// remove removes a column and returns its cells.
func (t *sheet) remove(column int) []string {
	cells := t.cells(column)
	t.columns = slices.Delete(slices.Clone(t.columns), column, column+1)
	for i, r := range t.rows {
		t.rows[i] = slices.Delete(slices.Clone(r), column, column+1)
	}
	return cells
}

func (t *sheet) cells(column int) []string {
	cells := make([]string, len(t.rows))
	for i, r := range t.rows {
		cells[i] = r[column]
	}
	return cells
}

// dropEmpty removes the columns whose cells are all "-".
func (t *sheet) dropEmpty() {
	t.rows = slices.Clone(t.rows)
	for i := len(t.columns) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(t.cells(i), func(c string) bool { return c != "-" }) {
			t.remove(i)
		}
	}
}

// useLabels shows the labels of IDs if they name the same things. A column that then repeats
// another one is removed.
func (t *sheet) useLabels() {
	for i := len(t.columns) - 1; i >= 0; i-- {
		labels := t.cells(i)
		ids := map[string]string{} // by label
		distinct := true
		shorter := false
		for at, id := range labels {
			labels[at] = names.Label(id)
			shorter = shorter || labels[at] != id
			known, is := ids[labels[at]]
			distinct = distinct && (!is || known == id)
			ids[labels[at]] = id
		}
		if !distinct || !shorter {
			continue
		}
		for other := range i {
			if slices.Equal(t.cells(other), labels) {
				t.remove(i)
				labels = nil
				break
			}
		}
		for at, label := range labels {
			r := slices.Clone(t.rows[at])
			r[i] = label
			t.rows[at] = r
		}
	}
}

// moveReasonBelow takes a last column with free text out of the rows.
func (t *sheet) moveReasonBelow() {
	last := len(t.columns) - 1
	if slices.Contains([]string{"reason", "error", "stalled"}, t.columns[last]) {
		t.below = t.remove(last)
	}
}

// plainTable prints a table for pipes: columns aligned by spaces, no empty cell, one line per row.
func plainTable(w io.Writer, columns []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(columns, "\t")))
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}
