package config

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Layer is where a value comes from. Its text is a contract: others read it.
type Layer string

const (
	LayerOverride Layer = "override"
	LayerEnv      Layer = "environment"
	LayerRuntime  Layer = "runtime"
	LayerFile     Layer = "file"
	LayerClient   Layer = "client"
	LayerDefault  Layer = "default"
)

// Layers are all of them, the one that goes before the others first (CFG-1).
func Layers() []Layer {
	return []Layer{LayerOverride, LayerEnv, LayerRuntime, LayerFile, LayerClient, LayerDefault}
}

// Config is the configuration of one process. It must not be copied.
type Config struct {
	now atomic.Pointer[[]slot] // by def.index; nil is all defaults

	mu     sync.Mutex
	layers map[Layer]layer // guarded by mu
}

// layer holds what one layer says.
type layer map[*def]chosen

// chosen is a value, and the place where somebody said it.
type chosen struct {
	value any
	place string
}

// slot is the value of a key that counts.
type slot struct {
	chosen
	layer Layer
}

// defaults are the slots without any layer.
var defaults = func() []slot {
	slots := make([]slot, len(all))
	for i, d := range all {
		slots[i] = slot{chosen{value: d.value}, LayerDefault}
	}
	return slots
}()

// effective is one state of all keys: two values out of it belong together.
func (c *Config) effective() []slot {
	if c != nil {
		if now := c.now.Load(); now != nil {
			return *now
		}
	}
	return defaults
}

// change lets f change a layer.
func (c *Config) change(l Layer, f func(layer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := maps.Clone(c.layers[l]) // With may share it
	if values == nil {
		values = layer{}
	}
	f(values)
	c.place(l, values)
}

// replace puts a layer in the place of the one there is (CFG-2).
func (c *Config) replace(l Layer, values layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place(l, values)
}

// place sets a layer and works out what counts now. The lock is held.
func (c *Config) place(l Layer, values layer) {
	if c.layers == nil {
		c.layers = map[Layer]layer{}
	}
	c.layers[l] = values
	slots := slices.Clone(defaults)
	for i, d := range all {
		for _, l := range Layers() {
			if v, ok := c.layers[l][d]; ok {
				slots[i] = slot{v, l}
				break
			}
		}
	}
	c.now.Store(&slots)
}

// Set says a value by name and text in the runtime layer.
func (c *Config) Set(name, text string) error {
	d, v, err := lookUp("", name, text)
	if err != nil {
		return err
	}
	c.change(LayerRuntime, func(values layer) { values[d] = chosen{value: v} })
	return nil
}

// lookUp finds a key and reads its value.
func lookUp(place, name, text string) (*def, any, error) {
	d := byName(name)
	if d == nil {
		return nil, nil, &Error{Place: place, Key: name, Value: text, Near: nearest(name, names())}
	}
	v, err := d.read(place, name, text)
	return d, v, err
}

func names() []string {
	list := make([]string, len(all))
	for i, d := range all {
		list[i] = d.info.Name
	}
	return list
}

// Entry is one key as it is in a process: what `client config show` prints (CFG-4).
type Entry struct {
	Name    string `cbor:"1,keyasint" json:"name"`
	Value   string `cbor:"2,keyasint" json:"value"`
	Default string `cbor:"3,keyasint" json:"default"`
	Layer   Layer  `cbor:"4,keyasint" json:"layer"`
	Place   string `cbor:"5,keyasint,omitempty" json:"place,omitempty"` // file:line:column, or the variable
	Changed bool   `cbor:"6,keyasint,omitempty" json:"changed"`         // it is not the default
	Env     string `cbor:"7,keyasint" json:"env"`
	Local   bool   `cbor:"8,keyasint,omitempty" json:"local"`
	Doc     string `cbor:"9,keyasint,omitempty" json:"doc"`
}

// Entries are all keys, in the order of Keys.
func (c *Config) Entries() []Entry {
	slots := c.effective()
	list := make([]Entry, len(all))
	for i, d := range all {
		s := slots[i]
		list[i] = Entry{
			Name: d.info.Name, Value: d.format(s.value), Default: d.info.Default, Layer: s.layer, Place: s.place,
			Changed: s.value != d.value, Env: d.info.Env, Local: d.info.Local, Doc: d.info.Doc,
		}
	}
	return list
}
