package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Prefix begins the name of every variable.
const Prefix = "CASTNET_"

// Value is what a key can hold.
type Value interface {
	time.Duration | int | bool | Size | string
}

// Size is a number of bytes; its text is such as 64MiB.
type Size int64

// Key is one setting: a value, to be compared and copied. The keys of castnet are variables of this
// package; there are no others.
type Key[T Value] struct{ *def }

// Info says about a key what does not change.
type Info struct {
	Name    string // dotted, such as proc.spawn-idle
	Env     string // the variable, such as CASTNET_PROC_SPAWN_IDLE
	Type    string // duration, int, bool, size or string
	Default string
	Seed    string // the default of Monarch, where it has such a limit; else ""
	Bounds  string // such as "1ms to 24h", "" for a bool
	Local   bool   // it stays in its process (CFG-6); else clients push it to hosts and procs
	Used    string // the packages that keep it
	Doc     string // one line
}

// def is a key without its type.
type def struct {
	info   Info
	index  int // its place in all
	value  any // the default
	parse  func(text string) (any, bool)
	format func(any) string
	inside func(any) bool
	want   string // what a text must look like
}

// Info says what the key is.
func (k Key[T]) Info() Info { return k.info }

// String is the key's name.
func (k Key[T]) String() string { return k.info.Name }

// Get is the value that counts now in c (CFG-1).
func (k Key[T]) Get(c *Config) T { return c.effective()[k.index].value.(T) }

// Set says the value in the runtime layer.
func (k Key[T]) Set(c *Config, v T) error { return k.put(c, LayerRuntime, v) }

// Override says the value in the layer that goes before all others. It is for tests.
func (k Key[T]) Override(c *Config, v T) error { return k.put(c, LayerOverride, v) }

func (k Key[T]) put(c *Config, l Layer, v T) error {
	if !k.inside(v) {
		return k.refuse("", k.info.Name, k.format(v))
	}
	c.change(l, func(values layer) { values[k.def] = chosen{value: v} })
	return nil
}

// read makes a value of a text.
func (d *def) read(place, name, text string) (any, error) {
	v, ok := d.parse(text)
	if !ok || !d.inside(v) {
		return nil, d.refuse(place, name, text)
	}
	return v, nil
}

// refuse is the error for a value: about its form, when it has none, else about its bounds.
func (d *def) refuse(place, name, text string) error {
	want := d.info.Bounds
	if _, ok := d.parse(text); !ok || want == "" {
		want = d.want
	}
	return &Error{Place: place, Key: name, Value: text, Want: want}
}

// envName is the variable of a key.
func envName(name string) string {
	return Prefix + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(name))
}

// Keys describes every key, in the order of docs/configuration.md.
func Keys() []Info {
	infos := make([]Info, len(all))
	for i, d := range all {
		infos[i] = d.info
	}
	return infos
}

// byName finds a key; nil when there is none.
func byName(name string) *def {
	for _, d := range all {
		if d.info.Name == name {
			return d
		}
	}
	return nil
}

// note is what a key has besides its default and bounds.
type note struct {
	seed  string // Monarch's default
	zero  string // what 0 means, where it is allowed below the least value
	local bool
	used  string
	doc   string
}

func newKey[T Value](name string, value T, form form[T], n note) Key[T] {
	return Key[T]{&def{
		info: Info{
			Name: name, Env: envName(name), Type: form.name, Default: form.format(value), Bounds: form.bounds,
			Seed: n.seed, Local: n.local, Used: n.used, Doc: n.doc,
		},
		value:  value,
		parse:  func(text string) (any, bool) { v, ok := form.parse(text); return v, ok },
		format: func(v any) string { return form.format(v.(T)) },
		inside: func(v any) bool { return form.inside(v.(T)) },
		want:   form.want,
	}}
}

func newDuration(name string, value, least, most time.Duration, n note) Key[time.Duration] {
	return newKey(name, value, number("duration", "a duration such as 30s", parseDuration, formatDuration, least, most, n.zero), n)
}

func newInt(name string, value, least, most int, n note) Key[int] {
	return newKey(name, value, number("int", "a whole number such as 16", parseInt, formatInt, least, most, n.zero), n)
}

func newSize(name string, value, least, most Size, n note) Key[Size] {
	return newKey(name, value, number("size", "a size such as 64MiB", parseSize, Size.String, least, most, n.zero), n)
}

func newBool(name string, value bool, n note) Key[bool] {
	return newKey(name, value, form[bool]{
		name: "bool", want: "true or false", parse: parseBool, format: formatBool,
		inside: func(bool) bool { return true },
	}, n)
}

// newChoice is a string that is one of a few.
func newChoice(name, value string, of []string, n note) Key[string] {
	want := fmt.Sprintf("one of %s", strings.Join(of, ", "))
	return newKey(name, value, form[string]{
		name: "string", want: want, bounds: want,
		parse:  func(s string) (string, bool) { return s, true },
		format: func(s string) string { return s },
		inside: func(s string) bool { return slices.Contains(of, s) },
	}, n)
}
