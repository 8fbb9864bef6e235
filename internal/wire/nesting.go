package wire

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of a value to be encoded (WIRE-9). Encoders are recursive. A value that contains itself
// would overflow the stack and end the process; one with repeated double references would fill the
// memory.
const (
	maxDepth = 1000    // containers, pointers and interfaces, one within the other
	maxItems = 1 << 26 // each takes a byte at least
)

var (
	errTooDeep = fmt.Errorf("want at most %d levels, got a deeper or cyclic value", maxDepth)
	errTooMany = fmt.Errorf("want at most %d items, got more or repeated ones", maxItems)
)

// checkNesting refuses a value that is nested too deep. It looks at values of recursive types only.
// deep reports that the encoded levels must be counted, because the receiver reads fewer.
func (f Format) checkNesting(v any) (deep bool, err error) {
	if t := reflect.TypeOf(v); t == nil || !f.isRecursive(t) {
		return false, nil
	}
	n := nestingCheck{format: f, items: maxItems}
	err = n.visitAny(v, 0)
	return n.deepest > maxNested, err
}

func (f Format) isRecursive(t reflect.Type) bool {
	if k := t.Kind(); k <= reflect.Complex128 || k == reflect.String {
		return false
	}
	if known, ok := codecs.endless[f].Load(t); ok {
		return known.(bool)
	}
	is := f.findRecursion(t, map[reflect.Type]bool{})
	codecs.endless[f].Store(t, is)
	return is
}

// findRecursion reports whether a type leads to an interface, or to a type on the way to itself.
// seen holds the visited types, and whether each is on the current path.
func (f Format) findRecursion(t reflect.Type, seen map[reflect.Type]bool) bool {
	if f.hasMarshaler(t, f == CBOR) {
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
		found = f.findRecursion(t.Key(), seen) || f.findRecursion(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		found = f.findRecursion(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			found = found || f.encodesField(field) && f.findRecursion(field.Type, seen)
		}
	}
	seen[t] = found
	return found
}

// hasMarshaler reports whether a method encodes values of the type. encoding/json calls a method of
// pointers only for addressable values.
func (f Format) hasMarshaler(t reflect.Type, addressed bool) bool {
	is := func(m reflect.Type) bool {
		return t.Implements(m) || addressed && reflect.PointerTo(t).Implements(m)
	}
	if f == JSON {
		return is(reflect.TypeFor[json.Marshaler]()) || is(reflect.TypeFor[encoding.TextMarshaler]())
	}
	return is(reflect.TypeFor[cbor.Marshaler]()) || is(reflect.TypeFor[encoding.TextMarshaler]()) ||
		is(reflect.TypeFor[encoding.BinaryMarshaler]())
}

// encodesField reports whether a field is encoded.
func (f Format) encodesField(field reflect.StructField) bool {
	tag := field.Tag.Get("json")
	if own := field.Tag.Get("cbor"); f == CBOR && own != "" {
		tag = own
	}
	return tag != "-" && (field.IsExported() || field.Anonymous)
}

// nestingCheck goes through a value as an encoder does.
type nestingCheck struct {
	format  Format
	items   int // remaining items
	deepest int // step so far
}

func (n *nestingCheck) enter(steps int) error {
	n.deepest = max(n.deepest, steps)
	n.items--
	if steps > maxDepth {
		return errTooDeep
	}
	if n.items < 0 {
		return errTooMany
	}
	return nil
}

// visitAny is visit for the value in an interface.
func (n *nestingCheck) visitAny(v any, steps int) error {
	switch v := v.(type) {
	case nil, bool, string, int, int64, float64, []byte:
	case map[string]any:
		if err := n.enter(steps + 1); err != nil {
			return err
		}
		for _, value := range v {
			if err := n.visitAny(value, steps+1); err != nil {
				return err
			}
		}
	case []any:
		if err := n.enter(steps + 1); err != nil {
			return err
		}
		for _, value := range v {
			if err := n.visitAny(value, steps+1); err != nil {
				return err
			}
		}
	default:
		return n.visit(reflect.ValueOf(v), steps)
	}
	return nil
}

func (n *nestingCheck) visit(v reflect.Value, steps int) error {
	t := v.Type()
	if !n.format.isRecursive(t) || n.format == JSON && n.format.hasMarshaler(t, v.CanAddr()) {
		return nil
	}
	steps++
	if err := n.enter(steps); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Interface:
		switch {
		case v.IsNil():
		case v.CanInterface():
			return n.visitAny(v.Interface(), steps)
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
		keys, values := n.format.isRecursive(t.Key()), n.format.isRecursive(t.Elem())
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
			if !n.format.encodesField(t.Field(i)) {
				continue
			}
			if err := n.visit(v.Field(i), steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// Immutable reports whether copies of a value of the type share no mutable memory.
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
