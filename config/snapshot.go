package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Bounds of a Snapshot (CFG-5), with room for the keys of later builds.
const (
	maxSnapshotKeys = 512
	maxSnapshotName = 128
	maxSnapshotText = 1024
)

// clientSource is the source of a pushed value.
const clientSource = "pushed by a client"

// Snapshot is the configuration that a client pushes: name and text of every chosen value except
// local ones (CFG-5). It is a message: its CBOR and JSON forms are append-only.
type Snapshot struct {
	Values map[string]string `cbor:"1,keyasint,omitempty" json:"values,omitempty"`
}

// Snapshot returns the effective values to push.
func (c *Config) Snapshot() Snapshot {
	var s Snapshot
	for i, slot := range c.effective() {
		d := allKeys[i]
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

// Push replaces the client layer (CFG-2). It returns the number of ignored keys: those that are
// unknown or local here (CFG-5).
func (c *Config) Push(s Snapshot) (ignored int, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	values := layer{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		d := findKey(name)
		if d == nil || d.info.Local {
			ignored++
			continue
		}
		v, err := d.parseValue(clientSource, name, s.Values[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = sourcedValue{value: v}
	}
	if len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	c.replaceLayer(LayerClient, values)
	return ignored, nil
}

// check enforces the bounds, for unknown keys too.
func (s Snapshot) check() error {
	if len(s.Values) > maxSnapshotKeys {
		return fmt.Errorf("%s: %d keys: want at most %d", clientSource, len(s.Values), maxSnapshotKeys)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if len(name) > maxSnapshotName {
			return fmt.Errorf("%s: key %s of %d bytes: want at most %d", clientSource, quote(name), len(name),
				maxSnapshotName)
		}
		if text := s.Values[name]; len(text) > maxSnapshotText {
			return fmt.Errorf("%s: the value of %s has %d bytes: want at most %d", clientSource, quote(name),
				len(text), maxSnapshotText)
		}
	}
	return nil
}

// Clone returns a copy with the layers of c, which may be nil.
func (c *Config) Clone() *Config {
	clone := &Config{}
	if c == nil {
		return clone
	}
	c.mu.Lock()
	layers := maps.Clone(c.layers)
	c.mu.Unlock()
	for _, l := range Layers() {
		if values, ok := layers[l]; ok {
			clone.replaceLayer(l, values)
		}
	}
	return clone
}

// WithClient returns a copy of c with s as its client layer. A host uses it for the procs of that
// client. c stays unchanged and may be nil.
func (c *Config) WithClient(s Snapshot) (with *Config, ignored int, err error) {
	with = c.Clone()
	ignored, err = with.Push(s)
	return with, ignored, err
}
