package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Limits of what a body may hold. Its size in bytes is bounded by the bus's max_payload before.
const (
	maxNested   = 32
	maxElements = 131072
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
func Marshal(v any) ([]byte, error) {
	b, err := modes.enc.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes CBOR into v. On an error v may be partly filled and must be thrown away.
func Unmarshal(data []byte, v any) error {
	if err := modes.dec.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
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
func (f Format) Encode(v any) ([]byte, error) {
	if f == JSON {
		return json.Marshal(v)
	}
	return Marshal(v)
}

// Decode reads v from data in the format. An empty JSON body reads as null, so that an endpoint
// without arguments can be asked with an empty message.
func (f Format) Decode(data []byte, v any) error {
	if f == CBOR {
		return Unmarshal(data, v)
	}
	if len(data) == 0 {
		data = []byte("null")
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decode JSON as %s: %w", typeName(v), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("decode JSON as %s: more than one value", typeName(v))
	}
	return nil
}

// typeName names what a pointer points to: the type the sender should have sent.
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }
