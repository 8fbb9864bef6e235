package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Prefix is the prefix of every variable name.
const Prefix = "CASTNET_"

// Value is the type set of values.
type Value interface {
	time.Duration | int | bool | Size | string
}

// Size is a number of bytes. Its text is such as 64MiB.
type Size int64

// Key is a typed setting. Keys can be compared and copied. All keys are variables of this package.
type Key[T Value] struct{ *keyDef }

// Info is the fixed description of a key.
type Info struct {
	Name           string // dotted, such as proc.spawn-progress-timeout
	Env            string // the variable, such as CASTNET_PROC_SPAWN_PROGRESS_TIMEOUT
	Type           string // duration, int, bool, size or string
	Default        string
	MonarchDefault string // Monarch's default for such a limit, or ""
	Bounds         string // such as "1ms to 24h"; "" for a bool
	Local          bool   // never leaves its process (CFG-5); other keys are pushed to hosts and procs
	UsedBy         string // packages that apply it
	Doc            string // one line
}

// keyDef is a key without its type.
type keyDef struct {
	info     Info
	index    int // position in allKeys
	value    any // the default
	parse    func(text string) (any, bool)
	format   func(any) string
	inBounds func(any) bool
	syntax   string // expected form of a text
}

// Info returns the key's description.
func (k Key[T]) Info() Info { return k.info }

// String returns the key's name.
func (k Key[T]) String() string { return k.info.Name }

// Get returns the effective value in c (CFG-1).
func (k Key[T]) Get(c *Config) T { return c.effective()[k.index].value.(T) }

// Set sets the value in the runtime layer.
func (k Key[T]) Set(c *Config, v T) error { return k.set(c, LayerRuntime, v) }

// Override sets the value in the first layer. It is for tests.
func (k Key[T]) Override(c *Config, v T) error { return k.set(c, LayerOverride, v) }

func (k Key[T]) set(c *Config, l Layer, v T) error {
	if !k.inBounds(v) {
		return k.invalidValue("", k.info.Name, k.format(v))
	}
	c.updateLayer(l, func(values layer) { values[k.keyDef] = sourcedValue{value: v} })
	return nil
}

// parseValue parses a value.
func (d *keyDef) parseValue(place, name, text string) (any, error) {
	v, ok := d.parse(text)
	if !ok || !d.inBounds(v) {
		return nil, d.invalidValue(place, name, text)
	}
	return v, nil
}

// invalidValue returns the error for a malformed value or for one out of bounds.
func (d *keyDef) invalidValue(place, name, text string) error {
	want := d.info.Bounds
	if _, ok := d.parse(text); !ok || want == "" {
		want = d.syntax
	}
	return &Error{Source: place, Key: name, Value: text, Want: want}
}

// envName returns the variable of a key.
func envName(name string) string {
	return Prefix + strings.ReplaceAll(strings.ReplaceAll(strings.ToUpper(name), ".", "_"), "-", "_")
}

// Keys describes every key, in the order of docs/configuration.md.
func Keys() []Info {
	infos := make([]Info, len(allKeys))
	for i, d := range allKeys {
		infos[i] = d.info
	}
	return infos
}

// findKey returns a key by name, or nil.
func findKey(name string) *keyDef {
	for _, d := range allKeys {
		if d.info.Name == name {
			return d
		}
	}
	return nil
}

// keyMeta is the description of a key besides default and bounds.
type keyMeta struct {
	monarchDefault string // Monarch's default
	zeroMeaning    string // meaning of 0, if allowed below the minimum
	local          bool
	usedBy         string
	doc            string
}

func newKey[T Value](name string, value T, form valueType[T], n keyMeta) Key[T] {
	return Key[T]{&keyDef{
		info: Info{
			Name: name, Env: envName(name), Type: form.name, Default: form.format(value), Bounds: form.bounds,
			MonarchDefault: n.monarchDefault, Local: n.local, UsedBy: n.usedBy, Doc: n.doc,
		},
		value:    value,
		parse:    func(text string) (any, bool) { v, ok := form.parse(text); return v, ok },
		format:   func(v any) string { return form.format(v.(T)) },
		inBounds: func(v any) bool { return form.inBounds(v.(T)) },
		syntax:   form.want,
	}}
}

func newDuration(name string, value, least, most time.Duration, n keyMeta) Key[time.Duration] {
	return newKey(name, value,
		bounded("duration", "a duration such as 30s", parseDuration, formatDuration, least, most, n.zeroMeaning),
		n)
}

func newInt(name string, value, least, most int, n keyMeta) Key[int] {
	return newKey(name, value,
		bounded("int", "a whole number such as 16", parseInt, formatInt, least, most, n.zeroMeaning), n)
}

func newSize(name string, value, least, most Size, n keyMeta) Key[Size] {
	return newKey(name, value,
		bounded("size", "a size such as 64MiB", ParseSize, Size.String, least, most, n.zeroMeaning), n)
}

func newBool(name string, value bool, n keyMeta) Key[bool] {
	return newKey(name, value, valueType[bool]{
		name: "bool", want: "true or false", parse: parseBool, format: formatBool,
		inBounds: func(bool) bool { return true },
	}, n)
}

// newChoice defines a string key with a fixed set of values.
func newChoice(name, value string, of []string, n keyMeta) Key[string] {
	want := fmt.Sprintf("one of %s", strings.Join(of, ", "))
	return newKey(name, value, valueType[string]{
		name: "string", want: want, bounds: want,
		parse:    func(s string) (string, bool) { return s, true },
		format:   func(s string) string { return s },
		inBounds: func(s string) bool { return slices.Contains(of, s) },
	}, n)
}
