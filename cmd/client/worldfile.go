package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// maxWorldFile bounds a file of worlds, in bytes.
const maxWorldFile = 1 << 20

// worldFiles reads the worlds of some files; "-" is standard input.
func worldFiles(paths []string) (all []worlds.Spec, err error) {
	for _, path := range paths {
		name, r := path, io.Reader(os.Stdin)
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
			return nil, cli.Usagef("%s: there is no world in it: want name, shape, per-host and command", name)
		}
		for _, s := range specs {
			if declares(all, s.Name) {
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

func declares(all []worlds.Spec, name string) bool {
	return slices.ContainsFunc(all, func(s worlds.Spec) bool { return s.Name == name })
}

// parseWorlds reads the worlds of a file, a document each. Everything that is wrong is said, with its place.
func parseWorlds(name string, data []byte) ([]worlds.Spec, error) {
	docs, err := cli.ParseYAML(name, data)
	if err != nil {
		return nil, err
	}
	var out []worlds.Spec
	f := worldFile{}
	for _, d := range docs {
		s := f.spec(d)
		if len(f.errs) == 0 {
			if err := s.Check(); err != nil {
				f.wrong(d.Place, "%w", err)
			}
		}
		out = append(out, s)
	}
	if len(f.errs) > 0 {
		return nil, cli.WithCode(cli.ExitUsage, errors.Join(f.errs...))
	}
	return out, nil
}

// worldFile is a file that is being read.
type worldFile struct{ errs []error }

func (f *worldFile) wrong(place, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: "+format, append([]any{place}, args...)...))
}

// fields hands each key of a mapping to who reads it, and refuses the others.
func (f *worldFile) fields(v cli.Value, what string, by map[string]func(cli.Value)) {
	if v.Fields == nil {
		f.wrong(v.Place, "%s: want keys and values", what)
		return
	}
	for _, field := range v.Fields {
		read, ok := by[field.Key]
		if !ok {
			var known []string
			for k := range by {
				known = append(known, k)
			}
			slices.Sort(known)
			f.wrong(field.Place, "there is no key %q in %s: want one of %s", field.Key, what, strings.Join(known, ", "))
			continue
		}
		read(field.Value)
	}
}

func (f *worldFile) spec(v cli.Value) (s worlds.Spec) {
	f.fields(v, "a world", map[string]func(cli.Value){
		"name": func(v cli.Value) {
			f.text(&s.Name)(v)
			if err := subjects.CheckLabel("world name", s.Name); v.IsText && err != nil {
				f.wrong(v.Place, "%w", err)
			}
		},
		"shape": func(v cli.Value) { s.Shape = f.shape(v) },
		"per-host": func(v cli.Value) {
			s.PerHost = 1
			if number(f, &s.PerHost)(v); s.PerHost < 1 || s.PerHost > agent.MaxPerHost {
				f.wrong(v.Place, "%s procs per host: want 1 to %d", v.Text, agent.MaxPerHost)
			}
		},
		"command": func(v cli.Value) { s.Command = f.command(v) },
		"labels":  func(v cli.Value) { s.Labels = f.labels(v) },
		"limits":  func(v cli.Value) { s.Limits = f.limits(v) },
		"keep":    f.flag(&s.Keep),
	})
	return s
}

func (f *worldFile) text(into *string) func(cli.Value) {
	return func(v cli.Value) {
		if !v.IsText {
			f.wrong(v.Place, "want one value: no list, no mapping")
			return
		}
		*into = v.Text
	}
}

func number[T int | int64](f *worldFile, into *T) func(cli.Value) {
	return func(v cli.Value) {
		n, err := strconv.ParseInt(v.Text, 10, 63)
		if !v.IsText || err != nil {
			f.wrong(v.Place, "%q: want a whole number", v.Text)
			return
		}
		*into = T(n)
	}
}

func (f *worldFile) flag(into *bool) func(cli.Value) {
	return func(v cli.Value) {
		on, err := strconv.ParseBool(v.Text)
		if !v.IsText || err != nil {
			f.wrong(v.Place, "%q: want true or false", v.Text)
			return
		}
		*into = on
	}
}

// shape is a text such as host=2,gpu=4, or a mapping of the same in that order.
func (f *worldFile) shape(v cli.Value) (e shape.Extent) {
	if v.IsText {
		e, err := shape.ParseExtent(v.Text)
		if err != nil {
			f.wrong(v.Place, "%w", err)
		}
		return e
	}
	if v.Fields == nil {
		f.wrong(v.Place, "shape: want such as host=2,gpu=4")
		return e
	}
	for _, d := range v.Fields {
		n, err := strconv.Atoi(d.Value.Text)
		if err != nil {
			f.wrong(d.Value.Place, "%s=%q: want a whole number of at least 1: a shape is known before its world begins", d.Key, d.Value.Text)
			return shape.Extent{}
		}
		if e = e.With(d.Key, n); e.Err() != nil {
			f.wrong(d.Place, "%w", e.Err())
			return shape.Extent{}
		}
	}
	return e
}

// command is a path on the hosts, or a mapping with arguments and more.
func (f *worldFile) command(v cli.Value) (c agent.Command) {
	if v.IsText {
		c.Path = v.Text
		return c
	}
	f.fields(v, "command", map[string]func(cli.Value){
		"path": f.text(&c.Path),
		"dir":  f.text(&c.Dir),
		"args": func(v cli.Value) {
			for _, x := range v.List {
				var arg string
				f.text(&arg)(x)
				c.Args = append(c.Args, arg)
			}
			if v.List == nil {
				f.wrong(v.Place, "args: want a list")
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

func (f *worldFile) labels(v cli.Value) map[string]string {
	var out map[string]string
	for _, x := range f.pairs(v, "labels") {
		if out == nil {
			out = map[string]string{}
		}
		out[x[0]] = x[1]
	}
	return out
}

func (f *worldFile) limits(v cli.Value) (l agent.Limits) {
	f.fields(v, "limits", map[string]func(cli.Value){
		"memory": number(f, &l.Memory), "pids": number(f, &l.Pids), "files": number(f, &l.Files), "bind": number(f, &l.Bind),
		"cpu": func(v cli.Value) {
			n, err := strconv.ParseFloat(v.Text, 64)
			if err != nil {
				f.wrong(v.Place, "%q: want a number of cores", v.Text)
			}
			l.CPU = n
		},
	})
	return l
}

// pairs are the keys and texts of a mapping.
func (f *worldFile) pairs(v cli.Value, what string) (out [][2]string) {
	if v.Fields == nil {
		f.wrong(v.Place, "%s: want keys and values", what)
	}
	for _, x := range v.Fields {
		var text string
		f.text(&text)(x.Value)
		out = append(out, [2]string{x.Key, text})
	}
	return out
}
