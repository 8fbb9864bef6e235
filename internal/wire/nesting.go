package wire

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of a value that is to be encoded (WIRE-9). Encoders call themselves for what is within a value: one that
// holds itself would overflow the stack, which ends the process, and one that holds another twice, which does the
// same, and so on, would fill the memory.
const (
	maxSteps = 1000    // containers, pointers and interfaces, one within the other
	maxItems = 1 << 26 // each takes a byte at least
)

var (
	errDeep = fmt.Errorf("want no more than %d levels, got a value that holds itself or is deeper", maxSteps)
	errMany = fmt.Errorf("want no more than %d items, got some of them many times", maxItems)
)

// endless are the types whose values can be nested to any depth, by format: a cache of what holdsItself finds.
var endless [2]sync.Map // of Format: reflect.Type -> bool

// checkNesting refuses a value that is nested too deep. It looks at values of endless types only. deep says that the
// levels of what is encoded have to be counted, for its receiver reads fewer.
func (f Format) checkNesting(v any) (deep bool, err error) {
	if t := reflect.TypeOf(v); t == nil || !f.endless(t) {
		return false, nil
	}
	n := nesting{format: f, items: maxItems}
	err = n.open(v, 0)
	return n.deepest > maxNested, err
}

func (f Format) endless(t reflect.Type) bool {
	if k := t.Kind(); k <= reflect.Complex128 || k == reflect.String {
		return false
	}
	if known, ok := endless[f].Load(t); ok {
		return known.(bool)
	}
	is := f.holdsItself(t, map[reflect.Type]bool{})
	endless[f].Store(t, is)
	return is
}

// holdsItself reports whether a type leads to an interface, or to a type on the way there. seen has those types, and
// whether the way goes through them.
func (f Format) holdsItself(t reflect.Type, seen map[reflect.Type]bool) bool {
	if f.marshals(t, f == CBOR) {
		return false
	}
	if within, is := seen[t]; is {
		return within
	}
	seen[t] = true
	found := false
	switch t.Kind() {
	case reflect.Interface:
		found = true
	case reflect.Map:
		found = f.holdsItself(t.Key(), seen) || f.holdsItself(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		found = f.holdsItself(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			found = found || f.encodes(field) && f.holdsItself(field.Type, seen)
		}
	}
	seen[t] = found
	return found
}

// marshals reports whether a method encodes values of the type. encoding/json calls a method of pointers only where
// the value has an address.
func (f Format) marshals(t reflect.Type, addressed bool) bool {
	is := func(m reflect.Type) bool {
		return t.Implements(m) || addressed && reflect.PointerTo(t).Implements(m)
	}
	if f == JSON {
		return is(reflect.TypeFor[json.Marshaler]()) || is(reflect.TypeFor[encoding.TextMarshaler]())
	}
	return is(reflect.TypeFor[cbor.Marshaler]()) || is(reflect.TypeFor[encoding.TextMarshaler]()) ||
		is(reflect.TypeFor[encoding.BinaryMarshaler]())
}

// encodes reports whether a field is encoded.
func (f Format) encodes(field reflect.StructField) bool {
	tag := field.Tag.Get("json")
	if own := field.Tag.Get("cbor"); f == CBOR && own != "" {
		tag = own
	}
	return tag != "-" && (field.IsExported() || field.Anonymous)
}

// nesting goes through a value as an encoder does.
type nesting struct {
	format  Format
	items   int // that it may still have
	deepest int // step so far
}

func (n *nesting) step(steps int) error {
	n.deepest = max(n.deepest, steps)
	n.items--
	switch {
	case steps > maxSteps:
		return errDeep
	case n.items < 0:
		return errMany
	}
	return nil
}

// open is visit for what an interface holds.
func (n *nesting) open(v any, steps int) error {
	switch v := v.(type) {
	case nil, bool, string, int, int64, float64, []byte:
	case map[string]any:
		if err := n.step(steps + 1); err != nil {
			return err
		}
		for _, value := range v {
			if err := n.open(value, steps+1); err != nil {
				return err
			}
		}
	case []any:
		if err := n.step(steps + 1); err != nil {
			return err
		}
		for _, value := range v {
			if err := n.open(value, steps+1); err != nil {
				return err
			}
		}
	default:
		return n.visit(reflect.ValueOf(v), steps)
	}
	return nil
}

func (n *nesting) visit(v reflect.Value, steps int) error {
	t := v.Type()
	if !n.format.endless(t) || n.format == JSON && n.format.marshals(t, v.CanAddr()) {
		return nil
	}
	steps++
	if err := n.step(steps); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Interface:
		switch {
		case v.IsNil():
		case v.CanInterface():
			return n.open(v.Interface(), steps)
		default:
			return n.visit(v.Elem(), steps)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return n.visit(v.Elem(), steps)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := n.visit(v.Index(i), steps); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys, values := n.format.endless(t.Key()), n.format.endless(t.Elem())
		for pairs := v.MapRange(); pairs.Next(); {
			if keys {
				if err := n.visit(pairs.Key(), steps); err != nil {
					return err
				}
			}
			if values {
				if err := n.visit(pairs.Value(), steps); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !n.format.encodes(t.Field(i)) {
				continue
			}
			if err := n.visit(v.Field(i), steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// Immutable reports whether copies of a value of the type share nothing that can be changed.
func Immutable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !Immutable(f.Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return Immutable(t.Elem())
	case reflect.String:
		return true
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 && t.Kind() != reflect.Uintptr
}
