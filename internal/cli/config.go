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

// Bounds of a configuration file.
const (
	maxConfigSize  = 1 << 20 // bytes
	maxConfigDepth = 8
)

// ReadConfigFile reads a file of keys for config.Config.LoadFile (CLI-7).
func ReadConfigFile(path string) (map[string]config.Setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Usagef("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err != nil {
		return nil, Usagef("configuration: %w", err)
	}
	return ParseConfig(path, data)
}

// ParseConfig is ReadConfigFile for data in memory. Errors use name.
func ParseConfig(name string, data []byte) (map[string]config.Setting, error) {
	if len(data) > maxConfigSize {
		return nil, Usagef("%s: more than %d bytes", name, maxConfigSize)
	}
	file := configParser{name: name, settings: map[string]config.Setting{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) { // only comments
		return file.settings, nil
	}
	if err != nil {
		return nil, yamlError(name, err)
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		file.readMapping(root, "", 1)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		file.addError(&doc, "want one document only")
	}
	if len(file.errs) > 0 {
		return nil, WithCode(ExitUsage, errors.Join(file.errs...))
	}
	return file.settings, nil
}

// configParser is the state of a parse.
type configParser struct {
	name     string
	settings map[string]config.Setting
	errs     []error
}

// readMapping reads the keys of a mapping. prefix is that of the outer mappings.
func (f *configParser) readMapping(n *yaml.Node, prefix string, depth int) {
	if n.Kind != yaml.MappingNode {
		f.addError(n, "want keys and values, such as proc.ready-timeout: 30s")
		return
	}
	if depth > maxConfigDepth {
		f.addError(n, "want at most %d levels", maxConfigDepth)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		switch {
		case key.Kind != yaml.ScalarNode:
			f.addError(key, "want the name of a key")
		case value.Kind == yaml.MappingNode:
			f.readMapping(value, name+".", depth+1)
		case value.Kind != yaml.ScalarNode:
			f.addError(value, "%q: want one value: no list, no alias", name)
		case value.Tag == "!!null":
			f.addError(value, "%q has no value", name)
		case f.settings[name].Source != "":
			f.addError(key, "%q is set already: %s", name, f.settings[name].Source)
		default:
			f.settings[name] = config.Setting{Text: value.Value, Source: f.position(key)}
		}
	}
}

func (f *configParser) position(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", f.name, n.Line, n.Column)
}

func (f *configParser) addError(n *yaml.Node, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: "+format, append([]any{f.position(n)}, args...)...))
}

// WriteConfig prints keys as a table, optionally only those with changed values.
func WriteConfig(w io.Writer, entries []config.Entry, changedOnly bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tFROM\tDEFAULT\tVARIABLE")
	for _, e := range entries {
		if changedOnly && !e.Changed {
			continue
		}
		from := string(e.Layer)
		if e.Layer == config.LayerFile {
			from = e.Source
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", printable(e.Name), printable(e.Value), printable(from),
			printable(e.Default), printable(e.Env))
	}
	return t.Flush()
}

// printable replaces control characters, because entries may come from any process.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
