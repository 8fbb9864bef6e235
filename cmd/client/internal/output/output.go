package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Format is the format of results on stdout.
type Format string

const (
	Table  Format = "table"  // for people: a table on a terminal, else aligned columns
	JSON   Format = "json"   // one document
	NDJSON Format = "ndjson" // one document per line, at once
)

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case Table, JSON, NDJSON:
		*f = Format(s)
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", Table, JSON, NDJSON)
}

func (f *Format) String() string { return string(*f) }

// Type returns the value name in the help.
func (f *Format) Type() string { return "table|json|ndjson" }

// Printer prints the results and the notes of one command.
type Printer struct {
	Format         Format
	Stdout, Stderr io.Writer
	OutTTY, ErrTTY bool
	UseColor       bool // on terminals only
}

// Records prints a list of records in any format.
func Records[T any](out *Printer, records []T, columns []string, row func(T) []string) error {
	switch out.Format {
	case JSON:
		if records == nil {
			records = []T{}
		}
		return out.WriteJSON(records)
	case NDJSON:
		for _, r := range records {
			if err := out.WriteJSONLine(r); err != nil {
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
	if out.OutTTY {
		return prettyTable(out.Stdout, columns, rows)
	}
	return plainTable(out.Stdout, columns, rows)
}

// WriteJSON prints one indented JSON document.
func (out *Printer) WriteJSON(v any) error {
	enc := json.NewEncoder(out.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteJSONLine prints one JSON document on one line.
func (out *Printer) WriteJSONLine(v any) error {
	enc := json.NewEncoder(out.Stdout)
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

// Colour is an ANSI colour.
type Colour int

const (
	Red     Colour = 31
	Green   Colour = 32
	Yellow  Colour = 33
	Blue    Colour = 34
	Magenta Colour = 35
	Cyan    Colour = 36
	Grey    Colour = 90
)

// Paint colours a text for stdout, if colours are on.
func (out *Printer) Paint(c Colour, s string) string {
	if !out.UseColor || !out.OutTTY || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, s)
}

// Notef prints a note to stderr.
func (out *Printer) Notef(form string, args ...any) {
	s := fmt.Sprintf(form, args...)
	if out.UseColor && out.ErrTTY {
		s = fmt.Sprintf("\x1b[%dm%s\x1b[0m", Grey, s)
	}
	fmt.Fprintln(out.Stderr, s)
}
