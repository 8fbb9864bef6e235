package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fxamacker/cbor/v2"
)

// Limits of user bodies: a 64 MiB message has room for this many elements of four bytes. Castnet's
// own bodies have narrow limits (own.go). They do not bound a body's memory, because it may hold
// many arrays and maps: WIRE-6 does that.
const (
	maxNested   = 32
	maxElements = 1 << 24

	ownNested   = 16
	ownElements = 65536
	ownPairs    = 4096
)

// codec holds the encoding mode, the decoding modes and cached type data. All are safe to share.
type codec struct {
	enc    cbor.EncMode
	body   decModes
	own    decModes // of castnet's own bodies
	joined decModes // of the same after their blocks are joined

	// Results of functions of a type alone. The types of the program bound them, and none changes,
	// so no caller can tell whether it was there before.
	plans   [2]sync.Map // reflect.Type -> *plan
	endless [2]sync.Map // reflect.Type -> bool: whether values can be nested to any depth
}

// decModes is one set of limits.
type decModes struct {
	lenient cbor.DecMode // ignores unknown fields
	strict  cbor.DecMode // stops at the first
}

// codecs builds the modes from constants; an error is a mistake in this file.
var codecs = func() *codec {
	enc := cbor.CoreDetEncOptions() // WIRE-2
	enc.TextMarshaler = cbor.TextMarshalerTextString
	enc.Time = cbor.TimeRFC3339Nano // the default keeps whole seconds
	enc.TagsMd = cbor.TagsForbidden // no peer would accept them
	enc.BigIntConvert = cbor.BigIntConvertReject
	em, err := enc.EncMode()
	if err != nil {
		panic(err)
	}
	return &codec{
		enc:    em,
		body:   newDecModes(maxNested, maxElements, maxElements),
		own:    newDecModes(ownNested, ownElements, ownPairs),
		joined: newDecModes(ownNested, maxElements, maxElements),
	}
}()

func newDecModes(nested, elements, pairs int) decModes {
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
	return decModes{lenient, strict}
}

// unmarshal decodes data into v, and counts it when there is an unknown field in it.
func unmarshal(data []byte, v any, unknown *atomic.Uint64) (err error) {
	defer recoverPanic(&err, "decode", v)
	times := 1
	limit := limitOf(data)
	if unknown != nil {
		times = 2
	}
	r := codecs.body
	p := CBOR.planOf(data, v)
	if p != nil && p.own {
		r = codecs.own
		if whole, err := joined(data, p); err != nil {
			return fmt.Errorf("decode %T: %w", v, codecError{err})
		} else if whole != nil {
			r = codecs.joined
			limit -= len(data)
			data = whole
		}
	}
	has, err := CBOR.affords(data, p, times, limit)
	if err != nil {
		return fmt.Errorf("decode %w", err)
	}
	if unknown == nil {
		err = r.lenient.Unmarshal(data, v)
	} else {
		has, err = r.decodeReporting(data, v, has)
		if has && err == nil {
			unknown.Add(1)
		}
	}
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, codecError{err})
	}
	return nil
}

// codecError is an error of CBOR without the name of the encoding: a gateway writes the JSON of its
// clients as CBOR.
type codecError struct{ error }

func (e codecError) Error() string {
	text := e.error.Error()
	for _, w := range [][2]string{{"cbor: ", ""}, {" CBOR ", " "}, {"UTF-8 text string", "text"},
		{"Go struct field", "field"}, {"Go value of type ", ""}, {" without toarray option", ""}} {
		text = strings.ReplaceAll(text, w[0], w[1])
	}
	return text
}

func (e codecError) Unwrap() error { return e.error }

// decodeReporting decodes data into v, and reports whether there is an unknown field. If that is
// not known yet, it first decodes strictly. Strict decoding stops at an unknown field, so such a
// message is decoded twice.
func (r decModes) decodeReporting(data []byte, v any, has bool) (bool, error) {
	if !has {
		err := r.strict.Unmarshal(data, v)
		if _, isUnknown := errors.AsType[*cbor.UnknownFieldError](err); !isUnknown {
			return false, err
		}
		reflect.ValueOf(v).Elem().SetZero()
	}
	return true, r.lenient.Unmarshal(data, v)
}

// Marshal encodes v as deterministic CBOR.
func Marshal(v any) (b []byte, err error) {
	defer recoverPanic(&err, "encode", v)
	deep, err := CBOR.checkNesting(v)
	if err == nil {
		b, err = codecs.enc.Marshal(v)
	}
	if err == nil && deep {
		err = codecs.body.lenient.Wellformed(b) // as its receiver asks
	}
	if err == nil && len(b) > leastLong {
		b, err = inBlocks(b, v)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, codecError{err})
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
		return append(appendLength(slices.Grow(b, bytesHeadLen(len(v))+len(v)), 0x60, len(v)), v...), nil
	}
	more, err := Marshal(v)
	return append(b, more...), err
}

// AppendBytes appends a byte string.
func AppendBytes(b, v []byte) []byte {
	return append(appendLength(slices.Grow(b, bytesHeadLen(len(v))+len(v)), 0x40, len(v)), v...)
}

// bytesHeadLen is the size of the head of a byte string of n bytes.
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

// Bytes returns a body made of one byte string, sharing its memory. It returns false for any other
// body, and for one that Unmarshal would refuse.
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

// UnmarshalCounting is Unmarshal, and counts a message with unknown fields once in unknown
// (WIRE-3); nil counts nothing. The target of v must be zero.
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

// recoverPanic converts a panic of a user's marshaler to an error (WIRE-2), because decoding
// goroutines serve others, too.
func recoverPanic(err *error, doing string, v any) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s %s: its marshaler panicked: %s", doing, typeName(v), PanicText(p))
	}
}

// PanicText describes a panic value as text. For a value without a text of its own it is the type,
// because printing a recursive value would overflow the stack.
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

// ContentType is the Content-Type header of the format.
func (f Format) ContentType() string {
	if f == JSON {
		return "application/json"
	}
	return "application/cbor"
}

// FormatOf returns a foreign body's format from its Content-Type header. Without one (""), a first
// byte from 0x80 up means CBOR, because no JSON text starts so. Everything else is JSON. A CBOR
// number or byte string at the top therefore needs the header.
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
	defer recoverPanic(&err, "encode", v)
	_, err = f.checkNesting(v)
	if err == nil {
		b, err = json.Marshal(v)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// Decode decodes data of the format into v. An empty JSON body reads as null, so an empty message
// can call an endpoint without arguments.
func (f Format) Decode(data []byte, v any) (err error) {
	if f == CBOR {
		return Unmarshal(data, v)
	}
	defer recoverPanic(&err, "decode", v)
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

// typeName names the target of a pointer: the type expected from the sender.
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }
