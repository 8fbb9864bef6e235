package micro

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"time"
)

const (
	// maxSchema bounds the text of one schema; what is longer says only which type it is.
	maxSchema = 4096
	// maxProperties bounds the work for a schema, in properties and levels.
	maxProperties = 1000
)

type object = map[string]any

// Schema is the JSON Schema of a Go type as encoding/json writes it. Like the decoders of castnet it asks for no
// property and allows more than there are. What it cannot say, such as what a type that writes itself looks like, is
// a schema that allows everything, with the type as its title.
func Schema(t reflect.Type) string {
	w := schemaWriter{left: maxProperties, above: map[reflect.Type]bool{}}
	text, err := json.Marshal(w.of(t))
	if err != nil || len(text) > maxSchema {
		text, _ = json.Marshal(anything(t)) // a text in a map
	}
	return string(text)
}

func anything(t reflect.Type) object { return object{"title": t.String()} }

// schemaWriter walks over a type.
type schemaWriter struct {
	left  int
	above map[reflect.Type]bool // the named types that the walk is inside of
}

func (w *schemaWriter) of(t reflect.Type) object {
	if w.left--; w.left < 0 || w.above[t] {
		return anything(t)
	}
	if t.Kind() == reflect.Pointer {
		return orNull(w.of(t.Elem()))
	}
	if t.Name() != "" {
		w.above[t] = true
		defer delete(w.above, t)
	}
	switch at := reflect.PointerTo(t); {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case at.Implements(reflect.TypeFor[json.Marshaler]()):
		return anything(t)
	case at.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	return w.ofKind(t)
}

func (w *schemaWriter) ofKind(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(1)<<(t.Bits()-1) - 1
		return object{"type": "integer", "minimum": -most - 1, "maximum": most}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxUint64) >> (64 - t.Bits())}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return orNull(object{"type": "string", "contentEncoding": "base64"})
		}
		return orNull(object{"type": "array", "items": w.of(t.Elem())})
	case reflect.Array:
		return object{"type": "array", "items": w.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return orNull(object{"type": "object", "additionalProperties": w.of(t.Elem())})
	case reflect.Struct:
		s := object{"type": "object"}
		if all := (object{}); w.fields(t, all) {
			s["properties"] = all
		}
		return s
	case reflect.Interface:
		return object{}
	}
	return anything(t)
}

// fields adds those of a struct, and of the structs that it embeds, and reports whether there are any.
func (w *schemaWriter) fields(t reflect.Type, to object) bool {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			if _, outer := to[name]; outer { // the outer one hides it
				continue
			}
			to[name] = w.of(f.Type)
			if strings.Contains(options, "string") {
				to[name] = object{"type": "string"}
			}
		}
	}
	for _, e := range embedded {
		if w.left--; w.left >= 0 {
			w.fields(e, to)
		}
	}
	return len(to) > 0
}

// orNull also allows null, which is what a nil pointer, slice or map is written as.
func orNull(s object) object {
	if kind, ok := s["type"].(string); ok {
		s["type"] = []string{kind, "null"}
	}
	return s
}
