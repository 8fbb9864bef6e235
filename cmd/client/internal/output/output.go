package output

import (
	"encoding/json"
	"fmt"
	"io"
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
	// Width is the width of the terminal in columns; 0: unknown.
	Width int
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
		return terminalTable(out.Stdout, out.Width, columns, rows)
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

// WriteDocument prints one document, if the format has documents. written is false for a table.
func (out *Printer) WriteDocument(v any) (written bool, err error) {
	switch out.Format {
	case JSON:
		return true, out.WriteJSON(v)
	case NDJSON:
		return true, out.WriteJSONLine(v)
	default:
		return false, nil
	}
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
	if out.ErrTTY {
		s = wrap(s, out.Width, 2)
	}
	if out.UseColor && out.ErrTTY {
		s = fmt.Sprintf("\x1b[%dm%s\x1b[0m", Grey, s)
	}
	fmt.Fprintln(out.Stderr, s)
}
