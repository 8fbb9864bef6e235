package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// format is what results look like on stdout.
type format string

const (
	asTable  format = "table"  // for people: a table on a terminal, aligned columns elsewhere
	asJSON   format = "json"   // one document
	asNDJSON format = "ndjson" // one document a line, as soon as it is known
)

// Set makes a format a flag.
func (f *format) Set(s string) error {
	switch format(s) {
	case asTable, asJSON, asNDJSON:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", asTable, asJSON, asNDJSON)
}

func (f *format) String() string { return string(*f) }

// Type is what help calls the flag's value.
func (f *format) Type() string { return "table|json|ndjson" }

// show writes a list of records: the same ones in every format.
func show[T any](a *app, records []T, columns []string, row func(T) []string) error {
	switch a.output {
	case asJSON:
		if records == nil {
			records = []T{}
		}
		return a.document(records)
	case asNDJSON:
		for _, r := range records {
			if err := a.line(r); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	for _, r := range records {
		rows = append(rows, row(r))
	}
	if len(rows) == 0 {
		return nil
	}
	if a.outTTY {
		return prettyTable(a.out, columns, rows)
	}
	return plainTable(a.out, columns, rows)
}

// document writes one indented JSON document.
func (a *app) document(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// line writes one JSON document on one line.
func (a *app) line(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// prettyTable is for terminals: header and columns told apart by rules, no box around them.
func prettyTable(w io.Writer, columns []string, rows [][]string) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatUpper
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces() // they would fill a line of their own behind a row that just fits
	t.AppendHeader(cells(columns))
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	header, rest, _ := strings.Cut(t.Render(), "\n")
	rule, body, _ := strings.Cut(rest, "\n")
	_, err := fmt.Fprintf(w, "%s\n%s\n%s\n", header, strings.TrimSuffix(rule, "──"), body)
	return err
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, t := range texts {
		row[i] = t
	}
	return row
}

// plainTable is for pipes: columns aligned by spaces, no cell empty, one line a row.
func plainTable(w io.Writer, columns []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(columns, "\t")))
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}

// colour is an ANSI colour.
type colour int

const (
	red     colour = 31
	green   colour = 32
	yellow  colour = 33
	blue    colour = 34
	magenta colour = 35
	cyan    colour = 36
	grey    colour = 90
)

// paint colours a text for stdout, where colours are wanted and seen.
func (a *app) paint(c colour, s string) string {
	if !a.colours || !a.outTTY || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, s)
}

// note tells people something on stderr that is no result.
func (a *app) note(form string, args ...any) {
	s := fmt.Sprintf(form, args...)
	if a.colours && a.errTTY {
		s = fmt.Sprintf("\x1b[%dm%s\x1b[0m", grey, s)
	}
	fmt.Fprintln(a.err, s)
}

// orDash fills a cell that has nothing to say.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shorten keeps a text on one line and within n characters.
func shorten(s string, n int) string {
	s, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	if more && strings.TrimSpace(rest) != "" {
		return s + " …"
	}
	return s
}
