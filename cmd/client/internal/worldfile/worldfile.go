package worldfile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// maxWorldFile bounds a file of worlds in bytes.
const maxWorldFile = 1 << 20

// Read reads the worlds of several files; "-" is standard input.
func Read(paths []string) (all []system.Spec, err error) {
	for _, path := range paths {
		name := path
		r := io.Reader(os.Stdin)
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, cli.Usagef("world: %w", err)
			}
			defer f.Close()
			r = f
		} else {
			name = "stdin"
		}
		data, err := io.ReadAll(io.LimitReader(r, maxWorldFile+1))
		if err != nil {
			return nil, cli.Usagef("world: %w", err)
		}
		specs, err := parseWorlds(name, data)
		if err != nil {
			return nil, err
		}
		if len(specs) == 0 {
			return nil, cli.Usagef("%s: no world in it: want name, shape, per-host and command", name)
		}
		for _, s := range specs {
			if containsWorld(all, s.Name) {
				return nil, cli.Usagef("%s: world %s is declared twice: want each world once", name, s.Name)
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, cli.Usagef("want a file with worlds: -f world.yaml")
	}
	return all, nil
}

func containsWorld(all []system.Spec, name string) bool {
	return slices.ContainsFunc(all, func(s system.Spec) bool { return s.Name == name })
}

// parseWorlds parses the worlds of a file, one per document. It returns all errors with their
// positions.
func parseWorlds(name string, data []byte) ([]system.Spec, error) {
	docs, err := cli.ParseYAML(name, data)
	if err != nil {
		return nil, err
	}
	var out []system.Spec
	f := worldParser{}
	for _, d := range docs {
		s := f.spec(d)
		if len(f.errs) == 0 {
			if err := s.Check(); err != nil {
				f.addError(d.Position, "%w", err)
			}
		}
		out = append(out, s)
	}
	if len(f.errs) > 0 {
		return nil, cli.WithCode(cli.ExitUsage, errors.Join(f.errs...))
	}
	return out, nil
}

// worldParser is the state of a parse.
type worldParser struct{ errs []error }

func (f *worldParser) addError(place, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: "+format, append([]any{place}, args...)...))
}

// fields passes each key of a mapping to its reader and refuses unknown keys.
func (f *worldParser) fields(v cli.Value, what string, by map[string]func(cli.Value)) {
	if v.Fields == nil {
		f.addError(v.Position, "%s: want keys and values", what)
		return
	}
	for _, field := range v.Fields {
		read, ok := by[field.Key]
		if !ok {
			known := slices.Sorted(maps.Keys(by))
			f.addError(
				field.Position, "unknown key %q in %s: want one of %s", field.Key, what, strings.Join(known, ", "),
			)
			continue
		}
		read(field.Value)
	}
}

func (f *worldParser) spec(v cli.Value) (s system.Spec) {
	shaped := false
	f.fields(v, "a world", map[string]func(cli.Value){
		"name": func(v cli.Value) {
			f.readText(&s.Name)(v)
			if err := subjects.CheckLabel("world name", s.Name); v.IsText && err != nil {
				f.addError(v.Position, "%w", err)
			}
		},
		"shape": func(v cli.Value) {
			shaped = true
			s.Shape = f.shape(v)
		},
		"per-host": func(v cli.Value) {
			s.PerHost = 1
			readInteger(f, &s.PerHost)(v)
			if s.PerHost < 1 || s.PerHost > agent.MaxPerHost {
				f.addError(v.Position, "%s procs per host: want 1 to %d", v.Text, agent.MaxPerHost)
			}
		},
		"command": func(v cli.Value) { s.Command = f.command(v) },
		"labels":  func(v cli.Value) { s.Labels = f.labels(v) },
		"limits":  func(v cli.Value) { s.Limits = f.limits(v) },
		"keep":    f.readBool(&s.Keep),
	})
	if !shaped && v.Fields != nil {
		f.addError(v.Position, `the world has no shape: want one such as host=2,gpu=4, or "" for one proc`)
	}
	return s
}

func (f *worldParser) readText(into *string) func(cli.Value) {
	return func(v cli.Value) {
		if !v.IsText {
			f.addError(v.Position, "want one value: no list, no mapping")
			return
		}
		*into = v.Text
	}
}

func readInteger[T int | int64](f *worldParser, into *T) func(cli.Value) {
	return func(v cli.Value) {
		n, err := strconv.ParseInt(v.Text, 10, 63)
		if !v.IsText || err != nil {
			f.addError(v.Position, "%q: want a whole number", v.Text)
			return
		}
		*into = T(n)
	}
}

func (f *worldParser) readBool(into *bool) func(cli.Value) {
	return func(v cli.Value) {
		on, err := strconv.ParseBool(v.Text)
		if !v.IsText || err != nil {
			f.addError(v.Position, "%q: want true or false", v.Text)
			return
		}
		*into = on
	}
}

// shape parses a text such as host=2,gpu=4, or an equivalent mapping.
func (f *worldParser) shape(v cli.Value) (e shape.Extent) {
	if v.IsText {
		e, err := shape.ParseExtent(v.Text)
		if err != nil {
			f.addError(v.Position, "%w", err)
		}
		return e
	}
	if v.Fields == nil {
		f.addError(v.Position, "shape: want such as host=2,gpu=4")
		return e
	}
	for _, d := range v.Fields {
		n, err := strconv.Atoi(d.Value.Text)
		if err != nil {
			f.addError(
				d.Value.Position, "%s=%q: want a whole number of at least 1: a shape is known before its world begins",
				d.Key, d.Value.Text,
			)
			return shape.Extent{}
		}
		e = e.With(d.Key, n)
		if e.Err() != nil {
			f.addError(d.Position, "%w", e.Err())
			return shape.Extent{}
		}
	}
	return e
}

// command parses a path on the hosts, or a mapping with arguments and more.
func (f *worldParser) command(v cli.Value) (c agent.Command) {
	if v.IsText {
		c.Path = v.Text
		return c
	}
	f.fields(v, "command", map[string]func(cli.Value){
		"path": f.readText(&c.Path),
		"dir":  f.readText(&c.Dir),
		"args": func(v cli.Value) {
			for _, x := range v.List {
				var arg string
				f.readText(&arg)(x)
				c.Args = append(c.Args, arg)
			}
			if v.List == nil {
				f.addError(v.Position, "args: want a list")
			}
		},
		"env": func(v cli.Value) {
			for _, x := range f.pairs(v, "env") {
				c.Env = append(c.Env, x[0]+"="+x[1])
			}
		},
	})
	return c
}

func (f *worldParser) labels(v cli.Value) map[string]string {
	var out map[string]string
	for _, x := range f.pairs(v, "labels") {
		if out == nil {
			out = map[string]string{}
		}
		out[x[0]] = x[1]
	}
	return out
}

func (f *worldParser) limits(v cli.Value) (l agent.Limits) {
	f.fields(v, "limits", map[string]func(cli.Value){
		"memory": readInteger(f, &l.Memory), "pids": readInteger(f, &l.Pids), "files": readInteger(f, &l.Files),
		"pinned_cpus": readInteger(
			f, &l.PinnedCPUs,
		),
		"cpu": func(v cli.Value) {
			n, err := strconv.ParseFloat(v.Text, 64)
			if err != nil {
				f.addError(v.Position, "%q: want a number of cores", v.Text)
			}
			l.CPU = n
		},
	})
	return l
}

// pairs returns the keys and texts of a mapping.
func (f *worldParser) pairs(v cli.Value, what string) (out [][2]string) {
	if v.Fields == nil {
		f.addError(v.Position, "%s: want keys and values", what)
	}
	for _, x := range v.Fields {
		var text string
		f.readText(&text)(x.Value)
		out = append(out, [2]string{x.Key, text})
	}
	return out
}
