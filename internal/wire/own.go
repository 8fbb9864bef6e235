package wire

import (
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

const module = "github.com/castnet-io/castnet/"

// own reports whether castnet itself says values of a type, or lists of it: a package that has words of its protocol
// declares it. What reads itself, or is made for any type, holds what is somebody else's.
func own(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Name() == "" {
		t = t.Elem()
	}
	room, ours := strings.CutPrefix(t.PkgPath(), module)
	if !ours || reads[cbor.Unmarshaler](t) || strings.HasSuffix(t.Name(), "]") {
		return false
	}
	switch room {
	case "internal/wire", "config", "actor", "cast", "agent", "agent/host", "agent/proc", "agent/presence", "controller", "controller/worlds":
		return true
	}
	return false
}
