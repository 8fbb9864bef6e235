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

// outputFormat is the format of results on stdout.
type outputFormat string

const (
	asTable  outputFormat = "table"  // for people: a table on a terminal, else aligned columns
	asJSON   outputFormat = "json"   // one document
	asNDJSON outputFormat = "ndjson" // one document per line, at once
)

// Set implements pflag.Value.
func (f *outputFormat) Set(s string) error {
	switch outputFormat(s) {
	case asTable, asJSON, asNDJSON:
		*f = outputFormat(s)
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", asTable, asJSON, asNDJSON)
}

func (f *outputFormat) String() string { return string(*f) }

// Type returns the value name in the help.
func (f *outputFormat) Type() string { return "table|json|ndjson" }

// showRecords prints a list of records in any format.
func showRecords[T any](a *app, records []T, columns []string, row func(T) []string) error {
	switch a.output {
	case asJSON:
		if records == nil {
			records = []T{}
		}
		return a.writeJSON(records)
	case asNDJSON:
		for _, r := range records {
			if err := a.writeJSONLine(r); err != nil {
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
		return prettyTable(a.stdout, columns, rows)
	}
	return plainTable(a.stdout, columns, rows)
}

// writeJSON prints one indented JSON document.
func (a *app) writeJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeJSONLine prints one JSON document on one line.
func (a *app) writeJSONLine(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// prettyTable prints a table for terminals: rules between header and columns, no box.
func prettyTable(w io.Writer, columns []string, rows [][]string) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatUpper
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces() // they would wrap after a row that just fits
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

// plainTable prints a table for pipes: columns aligned by spaces, no empty cell, one line per row.
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

// paint colours a text for stdout, if colours are on.
func (a *app) paint(c colour, s string) string {
	if !a.useColor || !a.outTTY || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, s)
}

// notef prints a note to stderr.
func (a *app) notef(form string, args ...any) {
	s := fmt.Sprintf(form, args...)
	if a.useColor && a.errTTY {
		s = fmt.Sprintf("\x1b[%dm%s\x1b[0m", grey, s)
	}
	fmt.Fprintln(a.stderr, s)
}

// orDash fills an empty cell.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shorten cuts a text to one line of n characters.
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
