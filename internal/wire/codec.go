package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Limits of what a body may hold. Its size in bytes is bounded by the bus's max_payload before;
// an array has at most as many elements as 1 MiB, the usual max_payload, has bytes.
const (
	maxNested   = 32
	maxElements = 1 << 20
)

// codec holds the one encoding and the one decoding mode. Both are immutable and safe to share.
type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// modes builds the modes from constants; an error is a mistake in this file.
var modes = func() codec {
	enc := cbor.CoreDetEncOptions() // WIRE-2
	enc.TextMarshaler = cbor.TextMarshalerTextString
	enc.Time = cbor.TimeRFC3339Nano // the default keeps whole seconds
	enc.TagsMd = cbor.TagsForbidden // what no peer would take is refused here
	enc.BigIntConvert = cbor.BigIntConvertReject
	em, err := enc.EncMode()
	if err != nil {
		panic(err)
	}
	dm, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   maxNested,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       maxElements,
		UTF8:              cbor.UTF8RejectInvalid,
		IntDec:            cbor.IntDecConvertSignedOrFail,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		TextUnmarshaler:   cbor.TextUnmarshalerTextString,
		DefaultMapType:    reflect.TypeFor[map[string]any](),
	}.DecMode() // WIRE-3
	if err != nil {
		panic(err)
	}
	return codec{enc: em, dec: dm}
}()

// Marshal encodes v as deterministic CBOR.
func Marshal(v any) (b []byte, err error) {
	defer guard(&err, "encode", v)
	if b, err = modes.enc.Marshal(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes CBOR into v. On an error v may be partly filled and must be thrown away.
func Unmarshal(data []byte, v any) (err error) {
	defer guard(&err, "decode", v)
	if err := modes.dec.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// guard makes a panic of a user's own marshaler an error (WIRE-5): bodies are read on goroutines
// that serve others, too.
func guard(err *error, doing string, v any) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s %s: its marshaler panicked: %v", doing, typeName(v), p)
	}
}

// Format is how a foreign message writes its body.
type Format int

const (
	CBOR Format = iota
	JSON
)

// ContentType is the value of a Content-Type header that names the format.
func (f Format) ContentType() string {
	if f == JSON {
		return "application/json"
	}
	return "application/cbor"
}

// FormatOf tells a foreign body's format from its Content-Type header ("" = none): without one,
// a first byte from 0x80 up is CBOR, for no JSON text has it, and everything else is JSON. A
// CBOR number or byte string at the top therefore needs the header.
func FormatOf(contentType string, body []byte) (Format, error) {
	switch media, _, _ := strings.Cut(contentType, ";"); strings.TrimSpace(strings.ToLower(media)) {
	case "":
	case "application/json", "text/json":
		return JSON, nil
	case "application/cbor":
		return CBOR, nil
	default:
		return JSON, fmt.Errorf("content type %q: want application/json or application/cbor", contentType)
	}
	if len(body) > 0 && body[0] >= 0x80 {
		return CBOR, nil
	}
	return JSON, nil
}

// Encode writes v in the format.
func (f Format) Encode(v any) (b []byte, err error) {
	if f == CBOR {
		return Marshal(v)
	}
	defer guard(&err, "encode", v)
	if b, err = json.Marshal(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// Decode reads v from data in the format. An empty JSON body reads as null, so that an endpoint
// without arguments can be asked with an empty message.
func (f Format) Decode(data []byte, v any) (err error) {
	if f == CBOR {
		return Unmarshal(data, v)
	}
	defer guard(&err, "decode", v)
	if len(data) == 0 {
		data = []byte("null")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode JSON as %s: %w", typeName(v), err)
	}
	return nil
}

// typeName names what a pointer points to: the type the sender should have sent.
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }
