package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The bounds of a Snapshot (CFG-7). There is room for the keys of later builds.
const (
	maxPushed     = 512
	maxPushedName = 128
	maxPushedText = 1024
)

// byClient is the place of a value that was pushed.
const byClient = "pushed by a client"

// Snapshot is what a client pushes: name and text of every value that was chosen and may travel
// (CFG-5, CFG-6). It is a message: its CBOR and JSON forms are append-only.
type Snapshot struct {
	Values map[string]string `cbor:"1,keyasint,omitempty" json:"values,omitempty"`
}

// Snapshot takes what is to be pushed from the values that count now.
func (c *Config) Snapshot() Snapshot {
	var s Snapshot
	for i, slot := range c.effective() {
		d := all[i]
		if slot.layer == LayerDefault || d.info.Local {
			continue
		}
		if s.Values == nil {
			s.Values = map[string]string{}
		}
		s.Values[d.info.Name] = d.format(slot.value)
	}
	return s
}

// Push replaces the client layer by what a client says (CFG-2), and says how many keys were ignored
// because this build does not know them or does not take them from others (CFG-7).
func (c *Config) Push(s Snapshot) (ignored int, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	values := layer{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		d := byName(name)
		if d == nil || d.info.Local {
			ignored++
			continue
		}
		v, err := d.read(byClient, name, s.Values[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = chosen{value: v}
	}
	if len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	c.replace(LayerClient, values)
	return ignored, nil
}

// check holds the bounds, for keys that nobody here knows as well.
func (s Snapshot) check() error {
	if len(s.Values) > maxPushed {
		return fmt.Errorf("%s: %d keys: want at most %d", byClient, len(s.Values), maxPushed)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if len(name) > maxPushedName {
			return fmt.Errorf("%s: key %s of %d bytes: want at most %d", byClient, quote(name), len(name), maxPushedName)
		}
		if text := s.Values[name]; len(text) > maxPushedText {
			return fmt.Errorf("%s: the value of %s has %d bytes: want at most %d", byClient, quote(name), len(text), maxPushedText)
		}
	}
	return nil
}

// With is a Config with the same layers and what a client says in the place of its client layer: what
// a host goes by for the procs of that client. c stays as it is, and may be nil.
func (c *Config) With(s Snapshot) (with *Config, ignored int, err error) {
	with = &Config{}
	if c != nil {
		c.mu.Lock()
		layers := maps.Clone(c.layers)
		c.mu.Unlock()
		for _, l := range Layers() {
			if values, ok := layers[l]; ok {
				with.replace(l, values)
			}
		}
	}
	ignored, err = with.Push(s)
	return with, ignored, err
}
