package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/castnet-io/castnet/bench/report"
)

// The marks around the table of the page.
const (
	begins = "<!-- the figures -->\n"
	ends   = "<!-- the end of the figures -->"
)

func main() {
	notes := flag.String("notes", "", "the stderr of a run")
	page := flag.String("page", "", "the page with the marks; the plots go into a folder of its name")
	flag.Parse()
	if err := fill(*notes, *page); err != nil {
		fmt.Fprintf(os.Stderr, "figures: %v\n", err)
		os.Exit(1)
	}
}

// fill writes the table and the plots.
func fill(notes, page string) error {
	f, err := os.Open(notes)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := report.Parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", notes, err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err = withTable(text, rows)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	folder := page[:len(page)-len(filepath.Ext(page))]
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, family := range families() {
		plot, err := report.Plot(family, rows)
		if err != nil {
			return err
		}
		if plot == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, family.File), []byte(plot), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(page, text, 0o644)
}

// withTable replaces the text between the marks.
func withTable(page []byte, rows []report.Row) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begins))
	_, after, also := bytes.Cut(rest, []byte(ends))
	if !ok || !also {
		return nil, fmt.Errorf("want the marks %q and %q", begins, ends)
	}
	var table bytes.Buffer
	if err := report.Markdown(&table, rows); err != nil {
		return nil, err
	}
	return slices.Concat(before, []byte(begins+"\n"), table.Bytes(), []byte("\n"+ends), after), nil
}
