package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/castnet-io/castnet/config"
)

// The bounds of a configuration file.
const (
	maxConfig      = 1 << 20 // bytes
	maxConfigDepth = 8
)

// ConfigFile reads a file of keys for config.Config.FromFile (CLI-7).
func ConfigFile(path string) (map[string]config.Setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Usagef("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, Usagef("configuration: %w", err)
	}
	return ParseConfig(path, data)
}

// ParseConfig is ConfigFile for what was read already; name is what errors call it.
func ParseConfig(name string, data []byte) (map[string]config.Setting, error) {
	if len(data) > maxConfig {
		return nil, Usagef("%s: more than %d bytes", name, maxConfig)
	}
	file := configFile{name: name, settings: map[string]config.Setting{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF): // nothing but comments
		return file.settings, nil
	case err != nil:
		return nil, noYAML(name, err)
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		file.read(root, "", 1)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		file.wrong(&doc, "want one document, there is more behind it")
	}
	if len(file.errs) > 0 {
		return nil, WithCode(ExitUsage, errors.Join(file.errs...))
	}
	return file.settings, nil
}

// configFile is a file that is being read.
type configFile struct {
	name     string
	settings map[string]config.Setting
	errs     []error
}

// read takes the keys of a mapping; prefix is that of the mappings around it.
func (f *configFile) read(n *yaml.Node, prefix string, depth int) {
	switch {
	case n.Kind != yaml.MappingNode:
		f.wrong(n, "want keys and values, such as host.ready: 30s")
		return
	case depth > maxConfigDepth:
		f.wrong(n, "want at most %d levels", maxConfigDepth)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		switch {
		case key.Kind != yaml.ScalarNode:
			f.wrong(key, "want the name of a key")
		case value.Kind == yaml.MappingNode:
			f.read(value, name+".", depth+1)
		case value.Kind != yaml.ScalarNode:
			f.wrong(value, "%q: want one value: no list, no alias", name)
		case value.Tag == "!!null":
			f.wrong(value, "%q has no value", name)
		case f.settings[name].Place != "":
			f.wrong(key, "%q was said before: %s", name, f.settings[name].Place)
		default:
			f.settings[name] = config.Setting{Text: value.Value, Place: f.place(key)}
		}
	}
}

func (f *configFile) place(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", f.name, n.Line, n.Column)
}

func (f *configFile) wrong(n *yaml.Node, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: "+format, append([]any{f.place(n)}, args...)...))
}

// WriteConfig prints keys as a table, or only those whose value is not the default.
func WriteConfig(w io.Writer, entries []config.Entry, changedOnly bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tFROM\tDEFAULT\tVARIABLE")
	for _, e := range entries {
		if changedOnly && !e.Changed {
			continue
		}
		from := string(e.Layer)
		if e.Layer == config.LayerFile {
			from = e.Place
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", printable(e.Name), printable(e.Value), printable(from), printable(e.Default), printable(e.Env))
	}
	return t.Flush()
}

// printable replaces what would move the cursor or the columns: entries may come from any process.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
