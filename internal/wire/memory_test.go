package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

type (
	large  struct{ A [128]int64 }
	holder struct {
		X any     `cbor:"x" json:"x"`
		L []large `cbor:"2,keyasint" json:"l"`
		N string
		node
	}
	node struct {
		Kids []node
		Next *node
		When time.Time
	}
	tuple struct {
		_ struct{} `cbor:",toarray"`
		A any
		B []string
	}
)

// targets are pointers to zero values of types of many shapes.
func targets() []any {
	return []any{
		new(any), new([]any), new(map[string]any), new([]byte), new(string), new(bool), new([]int), new([]int8),
		new([]uint16),
		new([]float32), new([]float64), new([]bool), new([]string), new([][]byte), new([][2]string),
		new([]map[string]int),
		new(map[string]string), new(map[int]large), new(map[string]*sample), new([]map[string]large),
		new([]time.Time),
		new(wire.Error), new([]wire.Error), new(sample), new([]sample), new([]large), new([]*large), new([]**large),
		new(holder), new([]holder), new(node), new([]node), new(tuple), new([]tuple), new([]fmt.Stringer),
		new(map[any]any),
		new([]map[string][]string), new([][][]int), new([]struct{}), new([]map[[2]string]bool),
	}
}

// fresh is a pointer to a zero value of the type behind v.
func fresh(v any) any { return reflect.New(reflect.TypeOf(v).Elem()).Interface() }

// items are CBOR and JSON with much memory for many of them.
var items = map[wire.Format][]string{
	wire.CBOR: {
		"00", "1818", "18ff", "1903e8", "1bffffffffffffffff", "20", "3903e8", "3bffffffffffffffff",
		"f9c000", "fa40490fdb",
		"fb7fe0000000000000", "f4", "f6", "e0", "f8ff", "80", "8100", "8180", "820080", "81818180", "a0", "a10000",
		"a180f6", "a1a0a0", "a1f4f6",
		"60", "6161", "61ff", "626161", "6a30313233343536373839", "40", "4101", "a160f6", "a1616101",
		"a2617801617902", "a161ff01",
		"a14001", "a1a000", "a260006000", "a1186300", "a200f401f4", "a4600060006000f600", "a160a160a160a160f6",
		"a102818060", "a10281a0",
		"a1617881a160f6", "a1646e6f6465a0", "a1644b69647381a0", "a1644b69647381a1644b69647380",
		"a1644e657874a1644e657874a0",
		"a1645768656e6161", "82f680", "8260816161", "82a160f682616160",
		"a9616100616200616300616400616500616600616700616800616900",
		"a100a100a100f6", "a26000f400", "7818" + strings.Repeat("61", 24), "78ff" + strings.Repeat("61", 255),
	},
	wire.JSON: {
		"0", "1", "-1", "10", "100.5", "1e400", "99999999999999999999", "null", "true", `""`, `"a"`, `"abc"`,
		`"\u0061"`, "\"\xff\xff\xff\xff\xff\xff\"",
		"[]", "[1]", "[[]]", "[[[[]]]]", "[1,2,3]", "{}", `{"":0}`, `{"a":1}`, `{"a":1,"b":2}`,
		`{"a":"x","b":[1,2,3]}`, `{"":{"":{"":{"":0}}}}`,
		`{"x":{"":0}}`, `{"X":[0]}`, `{"\u0058":[0]}`, `{"l":[{},{}]}`, `{"L":[0]}`, `{"Kids":[{},{}]}`,
		`{"KIDS":[{"kids":[0]}]}`,
		`{"Next":{"Next":{}}}`, `{"When":"x"}`, `{"S":1,"B":"aGVsbG8="}`, `{"P":1,"M":{"a":true}}`,
		`"2006-01-02T15:04:05Z"`,
		`{"1":{}}`, `{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9}`,
	},
}

// many is an array with as many items as fit a number of bytes.
func many(t testing.TB, f wire.Format, size int, item string) []byte {
	if f == wire.JSON {
		return []byte("[" + strings.Repeat(item+",", size/(len(item)+1)) + item + "]")
	}
	n := 1 + 2*size/len(item)
	return join(arrayOf(n), bytes.Repeat(unhex(t, item), n))
}

// The measured size is at least the memory taken, less that of any read, and at most that of the
// worst body of the size.
func requireMeasured(t testing.TB, f wire.Format, data []byte, v any) {
	t.Helper()
	measured, worst := f.Measure(data, v)
	const more = 2 << 10
	if measured > worst+more {
		t.Fatalf("%T: %d bytes are measured to take %d, the worst %d: % x", v, len(data), measured, worst,
			data[:min(len(data), 64)])
	}
	if measured > wireLimit(data) { // it is refused, and not read
		return
	}
	got, most := uint64(0), uint64(measured+more)
	if raced {
		most *= 2 // the least of memory is larger
	}
	for range 3 { // the runtime takes some now and then
		into := fresh(v)
		if got = allocated(func() { _ = f.Decode(data, into) }); got <= most {
			return
		}
	}
	t.Fatalf("%T: %d bytes took %d and are measured to take %d: % x", v, len(data), got, measured,
		data[:min(len(data), 64)])
}

func wireLimit(data []byte) int { return bodyFactor*len(data) + bodyMore }

func TestMeasure_boundsTheMemoryOfDecoding_WIRE6(t *testing.T) {
	some := 1
	if raced {
		some = 10
	}
	for f, all := range items {
		for i, item := range all {
			data := many(t, f, 6<<10, item)
			for j, v := range targets() {
				if (i+j)%some == 0 {
					requireMeasured(t, f, data, v)
				}
			}
		}
	}
}

func TestMeasure_boundsTheMemoryOfRandomTypes_WIRE6(t *testing.T) {
	all := targets()
	rapid.Check(t, func(r *rapid.T) {
		f := rapid.SampledFrom([]wire.Format{wire.CBOR, wire.JSON}).Draw(r, "format")
		item := anyItem(f, 3).Draw(r, "item")
		if f == wire.CBOR {
			item = fmt.Sprintf("%x", item)
		}
		v := rapid.SampledFrom(all).Draw(r, "type")
		requireMeasured(t, f, many(t, f, rapid.IntRange(1, 8<<10).Draw(r, "size"), item), v)
	})
}

// anyItem is one item, as text or as the bytes of CBOR, with a number of levels.
func anyItem(f wire.Format, levels int) *rapid.Generator[string] {
	return rapid.Custom(func(r *rapid.T) string {
		top := 3
		if levels > 0 {
			top = 5
		}
		kind := rapid.IntRange(0, top).Draw(r, "kind")
		name := rapid.SampledFrom([]string{"", "a", "x", "l", "N", "Kids", "Next", "When", "S", "M",
			"long name of a field"})
		if kind <= 3 {
			return leaf(f, kind, name.Draw(r, "text"), rapid.IntRange(-300, 70000).Draw(r, "number"))
		}
		var parts []string
		n := rapid.IntRange(0, 10).Draw(r, "n")
		for range n {
			part := anyItem(f, levels-1).Draw(r, "part")
			if kind == 5 {
				key := leaf(f, 0, name.Draw(r, "key"), 0)
				if f == wire.JSON {
					key += ":"
				} else if rapid.IntRange(0, 3).Draw(r, "odd") == 0 {
					key = anyItem(f, 0).Draw(r, "key")
				}
				part = key + part
			}
			parts = append(parts, part)
		}
		if f == wire.JSON {
			return "[{"[kind-4:kind-3] + strings.Join(parts, ",") + "]}"[kind-4:kind-3]
		}
		return string([]byte{byte(0x80 + 0x20*(kind-4) + n)}) + strings.Join(parts, "")
	})
}

func leaf(f wire.Format, kind int, text string, number int) string {
	var v any
	switch kind {
	case 0:
		v = text
	case 1:
		v = number
	case 2:
		v = float64(number) / 4
	default:
		v = []any{nil, true, false}[(number+300)%3]
	}
	b, err := f.Encode(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type user struct {
	ID    int64             `json:"id"`
	Name  string            `json:"name"`
	Tags  []string          `json:"tags,omitempty"`
	Attrs map[string]string `json:"attrs,omitempty"`
	Notes any               `json:"notes,omitempty"`
}

// document is a value as programs send them.
func document(n int) map[string]any {
	all := map[string]any{"title": "a report", "version": 3, "ok": true, "ratio": 0.25, "none": nil}
	numbers, halves, words, few, nested, lists := []int{}, []float64{}, []string{}, []map[string]int{},
		[]any{}, [][]int{}
	users := []user{}
	for i := range n {
		numbers, halves, words = append(numbers, i), append(halves, float64(i)/2),
			append(words, fmt.Sprint("word ", i))
		few = append(few, map[string]int{"id": i, "n": 1})
		nested = append(nested, map[string]any{"name": fmt.Sprint(i), "at": []int{i, i + 1},
			"sub": map[string]any{"x": 1.5, "y": nil}})
		lists = append(lists, []int{i, 1})
		users = append(users, user{ID: int64(i), Name: fmt.Sprint("user ", i), Tags: []string{"a"},
			Attrs: map[string]string{"k": "v"}})
	}
	all["numbers"], all["halves"], all["words"], all["few"], all["nested"], all["lists"], all["users"] = numbers,
		halves, words, few, nested, lists, users
	return all
}

func TestUnmarshal_acceptsHonestBodies_WIRE6(t *testing.T) {
	all := document(1500)
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		for name, part := range all {
			data, err := f.Encode(part)
			require.NoError(t, err)
			targets := []any{new(any)}
			if part != nil {
				targets = append(targets, reflect.New(reflect.TypeOf(part)).Interface())
			}
			for _, v := range targets {
				require.NoError(t, f.DecodeCounting(data, fresh(v), new(atomic.Uint64)), "%v %s", f.ContentType(), name)
				if len(data) > 1000 {
					measured, _ := f.Measure(data, v)
					require.LessOrEqual(t, measured, bodyFactor*len(data), "%v %s", f.ContentType(), name)
				}
			}
		}
		data, err := f.Encode(all)
		require.NoError(t, err)
		require.NoError(t, f.Decode(data, new(any)))
		require.NoError(t, f.DecodeCounting(data, new(map[string]any), new(atomic.Uint64)))
	}
}

func TestUnmarshal_refusalNamesTypeAndSizes_WIRE6(t *testing.T) {
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		item := map[wire.Format]string{wire.CBOR: "a0", wire.JSON: "{}"}[f]
		data := many(t, f, 5000, item)
		err := f.Decode(data, new([]large))
		refused, is := errors.AsType[*wire.TooLargeError](err)
		require.True(t, is, "%v", err)
		require.Equal(t, wire.TooLargeError{Type: "[]wire_test.large", Bytes: len(data),
			Limit: wireLimit(data)}, *refused)
		require.ErrorContains(t, err, refused.Error())
		require.EqualError(t, f.DecodeCounting(data, new([]large), new(atomic.Uint64)), err.Error())
	}
}

func TestUnmarshal_countsAnUnknownFieldOfALargeBody_WIRE3(t *testing.T) {
	var unknown atomic.Uint64
	type newer struct {
		ID  int
		New string
	}
	data, err := wire.Marshal(slices.Repeat([]newer{{1, "x"}}, 20_000))
	require.NoError(t, err)
	var old []struct{ ID int }
	require.NoError(t, wire.UnmarshalCounting(data, &old, &unknown))
	require.Len(t, old, 20_000)
	require.Equal(t, uint64(1), unknown.Load())
	var same []newer
	require.NoError(t, wire.UnmarshalCounting(data, &same, &unknown))
	require.Equal(t, uint64(1), unknown.Load())
}

func BenchmarkUnmarshal(b *testing.B) {
	all := document(2000)
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		for _, c := range []struct {
			name string
			v    any
			into func() any
		}{
			{"bytes of 100", make([]byte, 100), func() any { return new([]byte) }},
			{"bytes of 1 MB", make([]byte, 1<<20), func() any { return new([]byte) }},
			{"user", user{ID: 1, Name: "x"}, func() any { return new(user) }},
			{"numbers", all["numbers"], func() any { return new([]int) }},
			{"halves", all["halves"], func() any { return new([]float64) }},
			{"users", all["users"], func() any { return new([]user) }},
			{"document as any", all, func() any { return new(any) }},
		} {
			data, err := f.Encode(c.v)
			require.NoError(b, err)
			b.Run(f.ContentType()+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					require.NoError(b, f.Decode(data, c.into()))
				}
			})
			b.Run(f.ContentType()+"/"+c.name+"/measured", func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				v := c.into()
				for b.Loop() {
					f.Affords(data, v)
				}
			})
		}
	}
}
