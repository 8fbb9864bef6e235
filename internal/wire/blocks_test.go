package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

// small is a size of blocks within reach of tests: the smallest that the decoder permits.
const small = 16

// anySaid draws a message with lists and maps of up to 60.
func anySaid(levels int) *rapid.Generator[wire.Said] {
	return rapid.Custom(func(t *rapid.T) wire.Said {
		long := func(what string) int {
			return rapid.SampledFrom([]int{0, 0, 1, small - 1, small, small + 1, 2 * small, 2*small + 1,
				60}).Draw(t, what)
		}
		v := wire.Said{}
		for i := range long("numbers") {
			v.Numbers = append(v.Numbers, i*1000)
		}
		for i := range long("texts") {
			v.Texts = append(v.Texts, fmt.Sprint(i))
		}
		for i := range long("raw") {
			v.Raw = append(v.Raw, bytes.Repeat([]byte{0x81}, i%3))
		}
		for i := range long("errors") {
			v.Errors = append(v.Errors, []*wire.Error{nil, {Code: uint16(i)}}[i%2])
		}
		for range long("sets") {
			v.Sets = append(v.Sets, make(wire.Spans, long("set")))
		}
		for range long("truths") {
			v.Truths = append(v.Truths, make([]bool, long("truth")))
		}
		for i := range long("table") {
			if v.Table == nil {
				v.Table = map[int][]string{}
			}
			v.Table[i] = slices.Repeat([]string{"x"}, long("in the table"))
		}
		for range long("tables") % 3 {
			m := map[string]bool{}
			for i := range long("a table") {
				m[fmt.Sprint(i)] = true
			}
			v.Tables = append(v.Tables, m)
		}
		for range long("deep") % small {
			v.Deep = append(v.Deep, [][]int{make([]int, long("within"))})
		}
		if levels > 0 && rapid.Bool().Draw(t, "within") {
			within := anySaid(levels-1).Draw(t, "other")
			v.Within = &within
		}
		return v
	})
}

// A split value has no long list, and a joined one reads like the original.
func TestBlocks_decodeToTheOriginalValue_WIRE7(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anySaid(2).Draw(t, "said")
		whole, err := wire.Marshal(v)
		require.NoError(t, err)
		var want wire.Said
		require.NoError(t, wire.Unmarshal(whole, &want))

		cut, err := wire.InBlocks(v, small)
		require.NoError(t, err)
		require.NoError(t, wire.Narrow(cut, small))
		again, err := wire.InBlocks(v, small)
		require.NoError(t, err)
		require.Equal(t, cut, again)
		joined, err := wire.Joined(cut, &v, small)
		require.NoError(t, err)
		if wire.Narrow(whole, small) == nil {
			require.Equal(t, whole, cut, "short lists are unchanged")
			require.Nil(t, joined)
			return
		}
		var got wire.Said
		require.NoError(t, wire.Unmarshal(joined, &got))
		require.Equal(t, want, got)
	})
}

func TestBlocks_splitLongListsOfTheRuntime_WIRE7(t *testing.T) {
	const n = 70_000
	said := wire.Said{Table: map[int][]string{}, Tables: []map[string]bool{{}}, Within: &wire.Said{}}
	for i := range n {
		said.Numbers, said.Texts = append(said.Numbers, i), append(said.Texts, fmt.Sprint(i))
		said.Errors, said.Sets = append(said.Errors, &wire.Error{Code: 7}), append(said.Sets, nil)
	}
	for i := range 5000 {
		said.Table[i], said.Tables[0][fmt.Sprint(i)] = []string{"x"}, true
	}
	said.Within.Sets = append(said.Within.Sets, make(wire.Spans, n), make(wire.Spans, 1))
	for _, v := range []any{said, &said, said.Errors, &said.Errors} {
		data, err := wire.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, wire.Narrow(data, 65536), "%T", v)
		appended, err := wire.AppendMarshal(nil, v)
		require.NoError(t, err)
		require.Equal(t, data, appended)
	}
	data, err := wire.Marshal(said)
	require.NoError(t, err)
	var back wire.Said
	require.NoError(t, wire.Unmarshal(data, &back))
	require.True(t, reflect.DeepEqual(said, back))
}

func TestBlocks_shortListsKeepTheirEncoding_WIRE7(t *testing.T) {
	for n, want := range map[int]string{65536: "9a00010000" + "00", 65537: "82" + "9a00010000" + "00"} {
		data, err := wire.Marshal(make([]wire.Error, n))
		require.NoError(t, err)
		want = strings.TrimSuffix(want, "00") + "a201000260"
		require.Equal(t, unhex(t, want), data[:len(want)/2])
	}
}

func TestBlocks_ambiguousValuesFailToEncode_WIRE7(t *testing.T) {
	_, err := wire.Marshal(wire.Said{Deep: make([][][]int, 65537)})
	require.ErrorContains(t, err, "encode wire.Said: 65537 elements of a list that cannot be split: want at "+
		"most 65536")
	_, err = wire.Marshal(wire.Said{Tables: make([]map[string]bool, 65537)})
	require.ErrorContains(t, err, "65537 elements of a list that cannot be split")
}

// blocks are lists of lists of n nulls.
func blocks(sizes ...int) []byte {
	data := arrayOf(len(sizes))
	for _, n := range sizes {
		data = append(append(data, arrayOf(n)...), bytes.Repeat([]byte{0xf6}, n)...)
	}
	return data
}

func TestBlocks_refuseMalformedBlocks_WIRE7(t *testing.T) {
	const full = 65536
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"two":                   {blocks(full, 1), ""},
		"one":                   {blocks(full), "a list of blocks: want two or more, all but the last full"},
		"one that is not full":  {blocks(full, 5, full), "a list of blocks"},
		"an empty one":          {blocks(full, 0), "a list of blocks"},
		"the first is not full": {blocks(5, full), "cannot unmarshal array"},
		"one that is too large": {blocks(full, full+1), "exceeded max number of elements 65536"},
		"what is none":          {join(arrayOf(2), blocks(full)[5:], []byte{0xf6}), "a list of blocks"},
		"a list of blocks more": {join(arrayOf(2), blocks(full, full), blocks(full, 1)), "cannot unmarshal array"},
	} {
		var unknown atomic.Uint64
		var v []*wire.Error
		err := wire.UnmarshalCounting(c.data, &v, &unknown)
		if c.want == "" {
			require.NoError(t, err, name)
			require.Len(t, v, full+1)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestBlocks_splitLongMapsIntoPairs_WIRE7(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"two": {join(arrayOf(2), manyPairs(4096), unhex(t, "a1"+"6178"+"00")), ""},
		"a key twice": {join(arrayOf(2), manyPairs(4096), unhex(t, "a1"+"653030303030"+"00")),
			"duplicate map key"},
		"not full":     {join(arrayOf(2), manyPairs(4095), manyPairs(4095)), "a list of blocks"},
		"one":          {join(arrayOf(1), manyPairs(4096)), "a list of blocks"},
		"not of pairs": {join(arrayOf(2), manyPairs(4096), arrayOf(0)), "a list of blocks"},
	} {
		var v wire.Said
		err := wire.Unmarshal(join(unhex(t, "a1"+"0a"), c.data), &v)
		if c.want != "" {
			require.ErrorContains(t, err, c.want, name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, v.Counts, 4097)
		again, err := wire.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, wire.Narrow(again, 65536))
	}
}

// An unknown field in any block is counted, once.
func TestBlocks_countUnknownFields_WIRE3(t *testing.T) {
	data := blocks(65536, 3)
	data = join(data[:len(data)-2], unhex(t, "a3"+"186300"+"0107"+"0260"), unhex(t, "a2"+"0107"+"186300"))
	var unknown atomic.Uint64
	var v []*wire.Error
	require.NoError(t, wire.UnmarshalCounting(data, &v, &unknown))
	require.EqualValues(t, 1, unknown.Load())
	require.Len(t, v, 65539)
	require.Equal(t, []*wire.Error{nil, {Code: 7}, {Code: 7}}, v[65536:])
}

func TestBlocks_decodeInProportionalMemory_WIRE6(t *testing.T) {
	empty := func(n int) []byte { return join(arrayOf(n), bytes.Repeat([]byte{0xa0}, n)) }
	for name, data := range map[string][]byte{
		"of empty maps":                      join(arrayOf(3), empty(65536), empty(65536), empty(65536)),
		"of nulls":                           blocks(65536, 65536, 65536, 65536),
		"not full":                           blocks(65536, 65536, 1, 65536),
		"as far as may be, but for the copy": blocks(slices.Repeat([]int{65536}, 20)...),
	} {
		for _, v := range []any{new([]wire.Error), new([]*wire.Error), new([]wire.LinkStateBody), new([]wire.Said),
			new(wire.Said), new([]wire.Wide)} {
			t.Run(fmt.Sprintf("%s/%T", name, v), func(t *testing.T) { requireBody(t, wire.CBOR, data, v) })
		}
	}
}

func TestBlocks_runtimeTypesHaveNarrowLimits_WIRE7(t *testing.T) {
	for _, v := range []any{
		new(wire.Error), new([]wire.Error), new(*wire.Error), new([]*wire.LinkStateBody), new(wire.Said),
	} {
		require.True(t, wire.IsOwn(v), "%T", v)
	}
	for _, v := range []any{
		new(any), new([]float64), new([][]byte), new(sample), new([]sample), new(map[string]wire.Error),
		new(struct{ wire.Error }),
	} {
		require.False(t, wire.IsOwn(v), "%T", v)
	}
}

func FuzzBlocks(f *testing.F) {
	for _, v := range []wire.Said{
		{Numbers: make([]int, 40), Raw: make([][]byte, 17)},
		{Sets: make([]wire.Spans, 33), Within: &wire.Said{Sets: []wire.Spans{make(wire.Spans, 20)}}},
		{Table: map[int][]string{1: make([]string, 20)}, Counts: map[string]int{"a": 1}},
	} {
		data, err := wire.InBlocks(v, small)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if wire.Narrow(data, small) != nil {
			return
		}
		var v wire.Said
		requireBounded(t, data, packetFactor, packetMore, func() { _, _ = wire.Joined(data, &v, small) })
		joined, err := wire.Joined(data, &v, small)
		if err != nil || joined == nil || wire.Unmarshal(joined, &v) != nil {
			return
		}
		cut, err := wire.InBlocks(v, small)
		require.NoError(t, err)
		require.NoError(t, wire.Narrow(cut, small))
		if joined, err = wire.Joined(cut, &v, small); joined == nil {
			joined = cut
		}
		require.NoError(t, err)
		var again wire.Said
		require.NoError(t, wire.Unmarshal(joined, &again))
		first, err := wire.Marshal(v)
		require.NoError(t, err)
		second, err := wire.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}
