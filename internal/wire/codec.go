package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/fxamacker/cbor/v2"
)

// Limits of what a user's body may hold: a message may have 64 MiB, which is as many elements of four
// bytes. What castnet says itself has narrow ones (own.go). They are no bound of the memory a body takes, for
// there may be many arrays and maps in it: WIRE-6 has that one.
const (
	maxNested   = 32
	maxElements = 1 << 24

	ownNested   = 16
	ownElements = 65536
	ownPairs    = 4096
)

// codec holds the one encoding and the ways to read. All are immutable and safe to share.
type codec struct {
	enc    cbor.EncMode
	body   reading
	own    reading // of what castnet says itself
	joined reading // of that, when its blocks have been put together
}

// reading is one set of limits.
type reading struct {
	lenient cbor.DecMode // ignores unknown fields
	strict  cbor.DecMode // stops at the first
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
	return codec{
		enc:    em,
		body:   newReading(maxNested, maxElements, maxElements),
		own:    newReading(ownNested, ownElements, ownPairs),
		joined: newReading(ownNested, maxElements, maxElements),
	}
}()

func newReading(nested, elements, pairs int) reading {
	opts := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   nested,
		MaxArrayElements:  elements,
		MaxMapPairs:       pairs,
		UTF8:              cbor.UTF8RejectInvalid,
		IntDec:            cbor.IntDecConvertSignedOrFail,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		TextUnmarshaler:   cbor.TextUnmarshalerTextString,
		DefaultMapType:    reflect.TypeFor[map[string]any](),
	} // WIRE-3
	lenient, err := opts.DecMode()
	if err != nil {
		panic(err)
	}
	opts.ExtraReturnErrors = cbor.ExtraDecErrorUnknownField
	strict, err := opts.DecMode()
	if err != nil {
		panic(err)
	}
	return reading{lenient, strict}
}

// unmarshal decodes data into v, and counts it when there is an unknown field in it.
func unmarshal(data []byte, v any, unknown *atomic.Uint64) (err error) {
	defer guard(&err, "decode", v)
	times, limit := 1, limitOf(data)
	if unknown != nil {
		times = 2
	}
	r, p := modes.body, CBOR.planOf(data, v)
	if p != nil && p.own {
		r = modes.own
		if whole, err := joined(data, p); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		} else if whole != nil {
			r, data, limit = modes.joined, whole, limit-len(data)
		}
	}
	has, err := CBOR.affords(data, p, times, limit)
	if err != nil {
		return fmt.Errorf("decode %w", err)
	}
	if unknown == nil {
		err = r.lenient.Unmarshal(data, v)
	} else if has, err = r.known(data, v, has); has && err == nil {
		unknown.Add(1)
	}
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// known decodes data into v, and says whether there is an unknown field. Unless that is known it reads
// strictly first, which says so, but gives up what follows the field: such a message is read twice.
func (r reading) known(data []byte, v any, has bool) (bool, error) {
	if !has {
		err := r.strict.Unmarshal(data, v)
		if _, has = errors.AsType[*cbor.UnknownFieldError](err); !has {
			return false, err
		}
		reflect.ValueOf(v).Elem().SetZero()
	}
	return true, r.lenient.Unmarshal(data, v)
}

// Marshal encodes v as deterministic CBOR.
func Marshal(v any) (b []byte, err error) {
	defer guard(&err, "encode", v)
	deep, err := CBOR.checkNesting(v)
	if err == nil {
		b, err = modes.enc.Marshal(v)
	}
	if err == nil && deep {
		err = modes.body.lenient.Wellformed(b) // as its receiver asks
	}
	if err == nil && len(b) > leastLong {
		b, err = inBlocks(b, v)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// AppendMarshal appends v as deterministic CBOR to b. Byte strings and texts are copied once.
func AppendMarshal(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		if v != nil {
			return AppendBytes(b, v), nil
		}
	case string:
		return append(appendLength(b, 0x60, len(v)), v...), nil
	}
	more, err := Marshal(v)
	return append(b, more...), err
}

// AppendBytes appends a byte string.
func AppendBytes(b, v []byte) []byte { return append(appendLength(b, 0x40, len(v)), v...) }

// bytesHeadLen is the size of what comes before the n bytes of a byte string.
func bytesHeadLen(n int) int {
	switch {
	case n < 24:
		return 1
	case n <= 0xff:
		return 2
	case n <= 0xffff:
		return 3
	case n <= 0xffffffff:
		return 5
	}
	return 9
}

// appendLength appends the head of a byte string (major 0x40) or a text (0x60).
func appendLength(b []byte, major byte, n int) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n <= 0xff:
		return append(b, major|24, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), uint64(n))
}

// Bytes reads a body that is one byte string, whose memory it shares; false for anything else, and
// for one that Unmarshal would refuse.
func Bytes(data []byte) ([]byte, bool) {
	if len(data) == 0 || data[0]&0xe0 != 0x40 {
		return nil, false
	}
	n, rest := uint64(data[0]&0x1f), data[1:]
	if n >= 24 {
		size := 1 << (n - 24)
		if n > 27 || len(rest) < size {
			return nil, false
		}
		n = 0
		for _, c := range rest[:size] {
			n = n<<8 | uint64(c)
		}
		rest = rest[size:]
	}
	if n != uint64(len(rest)) {
		return nil, false
	}
	return rest[:n:n], true
}

// Unmarshal decodes CBOR into v. On an error v may be partly filled and must be thrown away.
func Unmarshal(data []byte, v any) error { return unmarshal(data, v, nil) }

// UnmarshalCounting is Unmarshal, and counts in unknown a message that has fields which v has not
// (WIRE-3): once, however many they are; nil counts nothing. What v points to must be zero.
func UnmarshalCounting(data []byte, v any, unknown *atomic.Uint64) error {
	return unmarshal(data, v, unknown)
}

// DecodeCounting is Decode, and counts CBOR with unknown fields as UnmarshalCounting does.
func (f Format) DecodeCounting(data []byte, v any, unknown *atomic.Uint64) error {
	if f == CBOR {
		return UnmarshalCounting(data, v, unknown)
	}
	return f.Decode(data, v)
}

// guard makes a panic of a user's own marshaler an error (WIRE-5): bodies are read on goroutines
// that serve others, too.
func guard(err *error, doing string, v any) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s %s: its marshaler panicked: %s", doing, typeName(v), PanicText(p))
	}
}

// PanicText is what a program panicked with, in words. Of a value that has none of its own it is the type: to print
// one that holds itself would overflow the stack.
func PanicText(p any) string {
	switch p.(type) {
	case error, fmt.Stringer:
		return fmt.Sprint(p)
	}
	if Immutable(reflect.TypeOf(p)) {
		return fmt.Sprint(p)
	}
	return fmt.Sprintf("a value of type %T", p)
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
	if _, err = f.checkNesting(v); err == nil {
		b, err = json.Marshal(v)
	}
	if err != nil {
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
	if _, err := JSON.affords(data, JSON.planOf(data, v), 1, limitOf(data)); err != nil {
		return fmt.Errorf("decode JSON as %w", err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode JSON as %s: %w", typeName(v), err)
	}
	return nil
}

// typeName names what a pointer points to: the type the sender should have sent.
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }
