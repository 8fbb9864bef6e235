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
	// maxSchema bounds a schema in bytes. A longer one shrinks to the type's name.
	maxSchema = 4096
	// maxProperties bounds the work for a schema, in properties and levels.
	maxProperties = 1000
)

type object = map[string]any

// Schema returns the JSON Schema of a Go type in its encoding/json form. No property is required,
// and unknown ones are permitted, as in castnet's decoders. A type with its own marshaller has a
// schema that permits everything, titled with the type.
func Schema(t reflect.Type) string {
	w := schemaWriter{budget: maxProperties, visiting: map[reflect.Type]bool{}}
	text, err := json.Marshal(w.schema(t))
	if err != nil || len(text) > maxSchema {
		text, _ = json.Marshal(anySchema(t)) // a map of texts
	}
	return string(text)
}

func anySchema(t reflect.Type) object { return object{"title": t.String()} }

// schemaWriter walks over a type.
type schemaWriter struct {
	budget   int
	visiting map[reflect.Type]bool // named types on the path of the walk
}

func (w *schemaWriter) schema(t reflect.Type) object {
	w.budget--
	if w.budget < 0 || w.visiting[t] {
		return anySchema(t)
	}
	if t.Kind() == reflect.Pointer {
		return orNull(w.schema(t.Elem()))
	}
	if t.Name() != "" {
		w.visiting[t] = true
		defer delete(w.visiting, t)
	}
	switch at := reflect.PointerTo(t); {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case at.Implements(reflect.TypeFor[json.Marshaler]()):
		return anySchema(t)
	case at.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	return w.schemaOfKind(t)
}

func (w *schemaWriter) schemaOfKind(t reflect.Type) object {
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
		return orNull(object{"type": "array", "items": w.schema(t.Elem())})
	case reflect.Array:
		return object{"type": "array", "items": w.schema(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return orNull(object{"type": "object", "additionalProperties": w.schema(t.Elem())})
	case reflect.Struct:
		s := object{"type": "object"}
		if all := (object{}); w.addFields(t, all) {
			s["properties"] = all
		}
		return s
	case reflect.Interface:
		return object{}
	}
	return anySchema(t)
}

// addFields adds the fields of a struct and of its embedded structs. It reports whether there are
// any.
func (w *schemaWriter) addFields(t reflect.Type, to object) bool {
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
			if _, outer := to[name]; outer { // hidden by the outer field
				continue
			}
			to[name] = w.schema(f.Type)
			if strings.Contains(options, "string") {
				to[name] = object{"type": "string"}
			}
		}
	}
	for _, e := range embedded {
		w.budget--
		if w.budget >= 0 {
			w.addFields(e, to)
		}
	}
	return len(to) > 0
}

// orNull also permits null, the form of a nil pointer, slice or map.
func orNull(s object) object {
	if kind, ok := s["type"].(string); ok {
		s["type"] = []string{kind, "null"}
	}
	return s
}
