package wire

import (
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

const module = "github.com/castnet-io/castnet/"

// own reports whether a type, or its elements, belongs to castnet's protocol: a protocol package
// declares it. Generic types and types with decoding methods hold foreign values.
func own(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Name() == "" {
		t = t.Elem()
	}
	room, ours := strings.CutPrefix(t.PkgPath(), module)
	if !ours || reads[cbor.Unmarshaler](t) || strings.HasSuffix(t.Name(), "]") {
		return false
	}
	switch room {
	case "internal/wire", "config", "actor", "cast", "agent", "agent/host", "agent/proc",
		"presence", "controller", "system":
		return true
	}
	return false
}
