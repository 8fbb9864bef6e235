package config

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Layer is a source of values. Its text is stable, because other programs read it.
type Layer string

const (
	LayerOverride Layer = "override"
	LayerEnv      Layer = "environment"
	LayerRuntime  Layer = "runtime"
	LayerFile     Layer = "file"
	LayerClient   Layer = "client"
	LayerDefault  Layer = "default"
)

// Layers returns all layers by precedence, the first overriding the others (CFG-1).
func Layers() []Layer {
	return []Layer{LayerOverride, LayerEnv, LayerRuntime, LayerFile, LayerClient, LayerDefault}
}

// Config is the configuration of one process. It must not be copied.
type Config struct {
	current atomic.Pointer[[]effectiveValue] // by keyDef.index; nil means defaults

	mu     sync.Mutex
	layers map[Layer]layer // guarded by mu
}

// layer holds the values of one layer.
type layer map[*keyDef]sourcedValue

// sourcedValue is a value with its source.
type sourcedValue struct {
	value  any
	source string
}

// effectiveValue is the value of a key after all layers.
type effectiveValue struct {
	sourcedValue
	layer Layer
}

// defaults are the effective values without any layer.
var defaults = func() []effectiveValue {
	slots := make([]effectiveValue, len(allKeys))
	for i, d := range allKeys {
		slots[i] = effectiveValue{sourcedValue{value: d.value}, LayerDefault}
	}
	return slots
}()

// effective returns a consistent snapshot of all keys.
func (c *Config) effective() []effectiveValue {
	if c != nil {
		if now := c.current.Load(); now != nil {
			return *now
		}
	}
	return defaults
}

// updateLayer changes a layer through f.
func (c *Config) updateLayer(l Layer, f func(layer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := maps.Clone(c.layers[l]) // a snapshot may share the map
	if values == nil {
		values = layer{}
	}
	f(values)
	c.setLayer(l, values)
}

// replaceLayer replaces a layer (CFG-2).
func (c *Config) replaceLayer(l Layer, values layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLayer(l, values)
}

// setLayer sets a layer and computes the effective values. The caller holds the lock.
func (c *Config) setLayer(l Layer, values layer) {
	if c.layers == nil {
		c.layers = map[Layer]layer{}
	}
	c.layers[l] = values
	slots := slices.Clone(defaults)
	for i, d := range allKeys {
		for _, l := range Layers() {
			if v, ok := c.layers[l][d]; ok {
				slots[i] = effectiveValue{v, l}
				break
			}
		}
	}
	c.current.Store(&slots)
}

// Set sets a key by name and text in the runtime layer.
func (c *Config) Set(name, text string) error {
	d, v, err := parseSetting("", name, text)
	if err != nil {
		return err
	}
	c.updateLayer(LayerRuntime, func(values layer) { values[d] = sourcedValue{value: v} })
	return nil
}

// parseSetting finds a key and parses its value.
func parseSetting(place, name, text string) (*keyDef, any, error) {
	d := findKey(name)
	if d == nil {
		return nil, nil, &Error{Source: place, Key: name, Value: text, Suggestion: nearest(name, keyNames())}
	}
	v, err := d.parseValue(place, name, text)
	return d, v, err
}

func keyNames() []string {
	list := make([]string, len(allKeys))
	for i, d := range allKeys {
		list[i] = d.info.Name
	}
	return list
}

// Entry is a key with its effective value: a row of `castnet config show` (CFG-1).
type Entry struct {
	Name    string `cbor:"1,keyasint" json:"name"`
	Value   string `cbor:"2,keyasint" json:"value"`
	Default string `cbor:"3,keyasint" json:"default"`
	Layer   Layer  `cbor:"4,keyasint" json:"layer"`
	Source  string `cbor:"5,keyasint,omitempty" json:"source,omitempty"` // file:line:column, or the variable
	Changed bool   `cbor:"6,keyasint,omitempty" json:"changed"`          // differs from the default
	Env     string `cbor:"7,keyasint" json:"env"`
	Local   bool   `cbor:"8,keyasint,omitempty" json:"local"`
	Doc     string `cbor:"9,keyasint,omitempty" json:"doc"`
}

// Entries returns all keys, in the order of Keys.
func (c *Config) Entries() []Entry {
	slots := c.effective()
	list := make([]Entry, len(allKeys))
	for i, d := range allKeys {
		s := slots[i]
		list[i] = Entry{
			Name: d.info.Name, Value: d.format(s.value), Default: d.info.Default, Layer: s.layer, Source: s.source,
			Changed: s.value != d.value, Env: d.info.Env, Local: d.info.Local, Doc: d.info.Doc,
		}
	}
	return list
}
