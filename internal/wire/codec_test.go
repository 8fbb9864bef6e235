package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestMarshal_isDeterministic_WIRE2(t *testing.T) {
	m := map[string]int{}
	for _, k := range []string{"b", "a", "aa", "", "z", "ab"} {
		m[k] = len(k)
	}
	first, err := wire.Marshal(m)
	require.NoError(t, err)
	for range 50 {
		b, err := wire.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, first, b)
	}
	require.Equal(t, "a6"+"6000"+"616101"+"616201"+"617a01"+"62616102"+"62616202", hex.EncodeToString(first))
}

func TestUnmarshal_refusesAmbiguousInput_WIRE3(t *testing.T) {
	for name, c := range map[string]string{
		"a duplicate key":           "a2616101616102",
		"an indefinite array":       "9f01ff",
		"an indefinite map":         "bf616101ff",
		"an indefinite text":        "7f6161ff",
		"a tag":                     "c11a514b67b0",
		"a big integer":             "c249010000000000000000",
		"too deep a nesting":        strings.Repeat("81", 40) + "01",
		"text that is not UTF-8":    "61ff",
		"two values":                "0101",
		"nothing":                   "",
		"a cut array":               "8301",
		"an array nobody sent":      "9b7fffffffffffffff",
		"an array of 2^32 elements": "9affffffff00",
	} {
		var v any
		require.Error(t, wire.Unmarshal(unhex(t, c), &v), name)
	}
	var typed struct{ A int }
	require.Error(t, wire.Unmarshal(unhex(t, "a2614101614102"), &typed), "a duplicate key of a struct")
}

func TestUnmarshal_ignoresUnknownFields_WIRE3(t *testing.T) {
	var newer = struct {
		Code  uint16 `cbor:"1,keyasint"`
		Text  string `cbor:"2,keyasint"`
		Extra []int  `cbor:"99,keyasint"`
	}{7, "why", []int{1}}
	b, err := wire.Marshal(newer)
	require.NoError(t, err)
	var e wire.Error
	require.NoError(t, wire.Unmarshal(b, &e))
	require.Equal(t, wire.Error{Code: 7, Text: "why"}, e)
}

func TestUnmarshal_countsAMessageWithUnknownFieldsOnce_WIRE3(t *testing.T) {
	type inner struct{ A, B int }
	type outer struct {
		L []inner
		M map[string]inner
		Z string
	}
	want := outer{L: []inner{{1, 2}, {3, 4}}, M: map[string]inner{"k": {5, 6}}, Z: "last"}
	for name, sent := range map[string]any{
		"none":       want,
		"at the top": map[string]any{"L": want.L, "M": want.M, "Z": "last", "A": 1, "New": []int{1}},
		"within a list, and within a map": map[string]any{
			"L": []map[string]int{{"A": 1, "AA": 9, "B": 2}, {"A": 3, "B": 4}},
			"M": map[string]any{"k": map[string]int{"": 7, "A": 5, "B": 6}}, "Z": "last",
		},
	} {
		b, err := wire.Marshal(sent)
		require.NoError(t, err)
		var unknown atomic.Uint64
		var got, uncounted outer
		require.NoError(t, wire.UnmarshalCounting(b, &got, &unknown), name)
		require.Equal(t, want, got, "%s: fields after an unknown one are read, too", name)
		require.Equal(t, name != "none", unknown.Load() == 1, name)
		require.NoError(t, wire.UnmarshalCounting(b, &uncounted, nil), name)
		require.Equal(t, want, uncounted, name)
	}
}

func TestUnmarshal_failedDecodingCountsNoFields_WIRE3(t *testing.T) {
	var unknown atomic.Uint64
	for name, c := range map[string]string{
		"a wrong type behind an unknown field": "a2" + "1863f6" + "01f5",
		"an unknown key twice":                 "a2" + "1863f6" + "1863f6",
		"a cut map":                            "a2" + "1863f6" + "01",
	} {
		require.Error(t, wire.UnmarshalCounting(unhex(t, c), new(wire.Error), &unknown), name)
	}
	require.Error(t, wire.UnmarshalCounting(unhex(t, "a11863f6"), wire.Error{}, &unknown), "no pointer")
	require.Error(t, wire.UnmarshalCounting(unhex(t, "a11863f6"), (*wire.Error)(nil), &unknown), "nil")
	require.NoError(t, wire.UnmarshalCounting(unhex(t, "a16161f6"), new(any), &unknown),
		"any has a place for all")
	require.Zero(t, unknown.Load())
}

func TestErrors_matchGoldenBytes_WIRE4(t *testing.T) {
	for _, c := range []struct {
		e   wire.Error
		hex string
	}{
		{wire.Error{}, "a2" + "0100" + "0260"},
		{wire.Error{Code: 300, Text: "no"}, "a2" + "0119012c" + "02626e6f"},
		{wire.Error{Code: 1, Text: "x", Actor: "a", Endpoint: "e", Ran: true}, "a5" + "0101" + "026178" + "036161" +
			"046165" + "05f5"},
		{wire.Error{Code: 23, Text: "x", Detail: []byte("{}")}, "a3" + "0117" + "026178" + "07427b7d"},
	} {
		b, err := wire.Marshal(c.e)
		require.NoError(t, err)
		require.Equal(t, c.hex, hex.EncodeToString(b))
		var back wire.Error
		require.NoError(t, wire.Unmarshal(b, &back))
		require.Equal(t, c.e, back)
	}
}

func TestMarshal_refusesValuesNoPeerAccepts_WIRE2(t *testing.T) {
	for _, v := range []any{*big.NewInt(1), big.NewInt(1), func() {}, make(chan int), struct{ F func() }{}} {
		_, err := wire.Marshal(v)
		require.ErrorContains(t, err, "encode", "%T", v)
	}
}

// rude is a type with marshalers that panic.
type rude struct{}

func (rude) MarshalText() ([]byte, error) { panic("out") }
func (*rude) UnmarshalText([]byte) error  { panic("in") }

func TestMarshal_marshalerPanicIsAnError_WIRE2(t *testing.T) {
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		_, err := f.Encode(rude{})
		require.ErrorContains(t, err, "panicked: out")
		text, err := f.Encode("x")
		require.NoError(t, err)
		require.ErrorContains(t, f.Decode(text, &rude{}), "panicked: in")
	}
}

func TestMarshal_timesKeepNanoseconds_WIRE2(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	b, err := wire.Marshal(at)
	require.NoError(t, err)
	var back time.Time
	require.NoError(t, wire.Unmarshal(b, &back))
	require.True(t, at.Equal(back), back)
}

// sample has a field of every kind in messages.
type sample struct {
	I   int64
	U   uint32
	F   float64
	S   string
	B   []byte
	L   []int
	M   map[string]bool
	P   *int
	N   struct{}
	Any any
}

func TestMarshal_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int().Draw(t, "p")
		v := sample{
			I: rapid.Int64().Draw(t, "i"), U: rapid.Uint32().Draw(t, "u"), F: rapid.Float64().Draw(t, "f"),
			S: rapid.String().Draw(t, "s"), B: rapid.SliceOf(rapid.Byte()).Draw(t, "b"),
			L: rapid.SliceOf(rapid.Int()).Draw(t, "l"), M: rapid.MapOf(rapid.String(), rapid.Bool()).Draw(t, "m"),
			P: &n, Any: rapid.String().Draw(t, "any"),
		}
		b, err := wire.Marshal(v)
		require.NoError(t, err)
		var back sample
		require.NoError(t, wire.Unmarshal(b, &back))
		require.Equal(t, v, back)
	})
}

func TestMarshal_keepsNilAndTheLimitsOfNumbers(t *testing.T) {
	b, err := wire.Marshal(sample{I: math.MinInt64, F: math.Inf(1)})
	require.NoError(t, err)
	var back sample
	require.NoError(t, wire.Unmarshal(b, &back))
	require.Equal(t, sample{I: math.MinInt64, F: math.Inf(1)}, back)
	require.Error(t, wire.Unmarshal(unhex(t, "19012c"), new(uint8)), "300 is no uint8")
	require.Error(t, wire.Unmarshal(unhex(t, "20"), new(uint)), "-1 is no uint")
}

func TestAppendMarshal_allocatesOnceForBytesAndTexts(t *testing.T) {
	most := 1.0
	if raced { // slices.Grow allocates twice then
		most = 2
	}
	for _, v := range []any{bytes.Repeat([]byte{1}, 60), strings.Repeat("x", 300)} {
		allocs := testing.AllocsPerRun(100, func() { _, _ = wire.AppendMarshal(nil, v) })
		require.LessOrEqual(t, allocs, most)
	}
}

func TestAppendMarshal_appendsTheBytesOfMarshal(t *testing.T) {
	type name string
	type raw []byte
	check := func(t require.TestingT, v any) {
		want, err := wire.Marshal(v)
		require.NoError(t, err)
		got, err := wire.AppendMarshal([]byte("before"), v)
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got), "%T", v)
	}
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		check(t, make([]byte, n))
		check(t, strings.Repeat("x", n))
	}
	for _, v := range []any{nil, []byte(nil), raw(nil), raw{1}, name("x"), "\xff", new("x"), &[]byte{1},
		time.Time{}} {
		check(t, v)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := drawBytes(t, "bytes")
		for _, v := range []any{b, string(b), rapid.String().Draw(t, "text"), rapid.Int().Draw(t, "number"),
			map[string][]byte{"b": b}} {
			check(t, v)
		}
	})
	got, err := wire.AppendMarshal([]byte("before"), func() {})
	require.ErrorContains(t, err, "encode func()")
	require.Equal(t, "before", string(got))
}

func TestUnmarshal_acceptsALongVector_WIRE7(t *testing.T) {
	vector := make([]float64, 100_000)
	for i := range vector {
		vector[i] = float64(i) / 3
	}
	data, err := wire.Marshal(vector)
	require.NoError(t, err)
	var back []float64
	require.NoError(t, wire.Unmarshal(data, &back))
	require.Equal(t, vector, back)

	for levels, want := range map[int]string{32: "", 33: "exceeded max nested level 32"} {
		err := wire.Unmarshal(append(bytes.Repeat([]byte{0x81}, levels), 0), new(any))
		if want == "" {
			require.NoError(t, err, "%d levels", levels)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestBytes_decodesOneByteString(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		data, err := wire.Marshal(make([]byte, n))
		require.NoError(t, err)
		b, ok := wire.Bytes(data)
		require.True(t, ok)
		require.Len(t, b, n)
		for _, wrong := range [][]byte{data[:len(data)-1], join(data, []byte{0})} {
			b, ok = wire.Bytes(wrong)
			require.False(t, ok)
			require.Nil(t, b)
		}
		if n > 0 {
			data[len(data)-1] = 7
			b, _ = wire.Bytes(data)
			require.Equal(t, byte(7), b[n-1], "the memory is the body's")
		}
	}
	for _, c := range []string{"", "60", "80", "f6", "5f41aaff", "5c", "5d", "5e", "5f", "58", "5901",
		"5a010203", "5bffffffffffffffff"} {
		_, ok := wire.Bytes(unhex(t, c))
		require.False(t, ok, c)
	}
	b, ok := wire.Bytes(unhex(t, "5b0000000000000001"+"aa"))
	require.True(t, ok, "a length may be written longer than it must be")
	require.Equal(t, []byte{0xaa}, b)
}

func TestErrorBounded_alwaysFitsAPacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := string(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "unit"))
		if rapid.Bool().Draw(t, "whole runes") {
			unit = rapid.StringN(1, 8, -1).Draw(t, "text")
		}
		text := strings.Repeat(unit, rapid.IntRange(0, 3000).Draw(t, "times"))
		e := wire.Error{Code: 1, Text: text, Actor: text, Endpoint: text}.Bounded()
		require.LessOrEqual(t, len(e.Text), 3*(8<<10)+16, "an invalid byte takes three")
		b, err := wire.Marshal(e)
		require.NoError(t, err)
		var back wire.Error
		require.NoError(t, wire.Unmarshal(b, &back))
		require.Equal(t, e, back)
		if utf8.ValidString(text) {
			require.True(t, strings.HasPrefix(text, strings.TrimSuffix(e.Text, "… [cut]")),
				"cut between runes, nothing replaced")
		}
	})
}

func TestFormatOf_prefersTheHeaderToTheFirstByte(t *testing.T) {
	for _, c := range []struct {
		header string
		body   []byte
		want   wire.Format
	}{
		{"", nil, wire.JSON},
		{"", []byte(`{"n":1}`), wire.JSON},
		{"", []byte("7"), wire.JSON},
		{"", []byte(" [1]"), wire.JSON},
		{"", []byte{0xa0}, wire.CBOR},
		{"", []byte{0x83, 1, 2, 3}, wire.CBOR},
		{"", []byte{0xf6}, wire.CBOR},
		{"", []byte{0x05}, wire.JSON},
		{"application/json", []byte{0xa0}, wire.JSON},
		{"Application/JSON; charset=utf-8", nil, wire.JSON},
		{"text/json", nil, wire.JSON},
		{"application/cbor", []byte("7"), wire.CBOR},
		{" application/cbor ;x=y", nil, wire.CBOR},
	} {
		got, err := wire.FormatOf(c.header, c.body)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%q % x", c.header, c.body)
	}
	_, err := wire.FormatOf("text/plain", nil)
	require.ErrorContains(t, err, `"text/plain": want application/json or application/cbor`)
}

func TestFormat_encodesAndDecodesSymmetrically(t *testing.T) {
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		b, err := f.Encode(map[string]int{"n": 1})
		require.NoError(t, err)
		back, err := wire.FormatOf(f.ContentType(), b)
		require.NoError(t, err)
		require.Equal(t, f, back)
		guessed, err := wire.FormatOf("", b)
		require.NoError(t, err)
		require.Equal(t, f, guessed, "the first byte determines it, too")
		var v map[string]int
		require.NoError(t, f.Decode(b, &v))
		require.Equal(t, map[string]int{"n": 1}, v)
	}
	var n *int
	require.NoError(t, wire.JSON.Decode(nil, &n), "an empty JSON body is null")
	require.ErrorContains(t, wire.JSON.Decode([]byte("1 2"), new(int)), "decode JSON as int")
	require.ErrorContains(t, wire.JSON.Decode([]byte(`"x"`), new(int)), "decode JSON as int")
	require.Error(t, wire.CBOR.Decode(nil, new(int)))
	_, err := wire.JSON.Encode(func() {})
	require.Error(t, err)
}
