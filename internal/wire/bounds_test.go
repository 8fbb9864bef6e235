package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

// arrayOf and mapOf are the heads of an array and a map.
func arrayOf(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n)) }
func mapOf(n int) []byte   { return binary.BigEndian.AppendUint32([]byte{0xba}, uint32(n)) }

func TestDecode_sharesThePacketsMemory_WIRE1(t *testing.T) {
	packet := (&wire.Envelope{Kind: wire.Cast, Ext: make([]byte, 1<<16), Body: make([]byte, 1<<16)}).
		Append(nil, false)
	packet = (&wire.Envelope{Kind: wire.Message, Body: []byte{7}}).Append(packet, true)
	es := wire.NewEnvelopeReader(packet)
	var first, second wire.Envelope
	_, ok := es.Next(&first)
	require.True(t, ok)
	_, ok = es.Next(&second)
	require.True(t, ok)
	packet[len(packet)-1] = 8
	require.Equal(t, []byte{8}, second.Body)
	_, _ = append(first.Ext, 0xff), append(first.Body, 0xff)
	require.Zero(t, first.Body[0], "growing ext does not write into the body")
	require.Equal(t, []byte{8}, second.Body, "growing a body does not write into the next")
	require.Equal(t, []byte{1<<3 | 1, 1, 8}, packet[len(packet)-3:])

	piece := wire.AppendFragment(nil, wire.FragmentHead{Total: 5}, []byte("parts"))
	_, part, err := wire.DecodeFragment(piece)
	require.NoError(t, err)
	piece[len(piece)-1] = '!'
	require.Equal(t, "part!", string(part))
}

func TestDecode_packetUsesNoMoreMemoryThanItsSize_WIRE1(t *testing.T) {
	text := strings.Repeat("x", 33) // a size that the allocator rounds up
	named := (&wire.Envelope{Kind: wire.Message, Actor: text, Port: text, Sender: text, Reply: text}).
		Append(nil, false)
	for name, data := range map[string][]byte{
		"many envelopes":       bytes.Repeat(named, 10_000),
		"many least ones":      bytes.Repeat(unhex(t, "0100000000"), 100_000),
		"many to one":          join(named, bytes.Repeat(unhex(t, "0900"), 100_000)),
		"a length nobody sent": unhex(t, "01"+"ffffffff7f"),
		"a body nobody sent":   unhex(t, "01"+"000000"+"ffffffff7f"),
		"one great body":       (&wire.Envelope{Kind: wire.Value, Body: make([]byte, 1<<20)}).Append(nil, false),
		"a great name": (&wire.Envelope{Kind: wire.Value, Actor: strings.Repeat("a", 1<<20)}).
			Append(nil, false),
		"a head":                unhex(t, heads[2].hex),
		"a subject nobody sent": unhex(t, "ffffffff7f"+"61"),
		"a great subject":       wire.AppendRepair(nil, strings.Repeat("a", 1<<20), nil),
	} {
		t.Run(name, func(t *testing.T) {
			requireBounded(t, data, packetFactor, packetMore, func() { readEnvelopes(data) })
			requireBounded(t, data, packetFactor, packetMore, func() { _, _, _ = wire.DecodeHead(data) })
			requireBounded(t, data, packetFactor, packetMore, func() { _, _, _ = wire.DecodeRepair(data) })
			requireBounded(t, data, packetFactor, packetMore, func() { _, _, _ = wire.DecodeFragment(data) })
			requireBounded(t, data, packetFactor, packetMore, func() { _, _ = wire.DecodeChunk(data, 1) })
		})
	}
}

func readEnvelopes(data []byte) {
	es := wire.NewEnvelopeReader(data)
	var e wire.Envelope
	for ok := true; ok; {
		_, ok = es.Next(&e)
	}
}

// hostile is CBOR with the largest values for its size.
func hostile(t testing.TB) map[string][]byte {
	bodies := map[string][]byte{
		"an array nobody sent":      unhex(t, "9b7fffffffffffffff"),
		"2^24 elements nobody sent": unhex(t, "9a01000000"),
		"2^24 pairs nobody sent":    unhex(t, "ba01000000"),
		"nested heads":              bytes.Repeat(arrayOf(1<<24), 31),
		"bytes nobody sent":         unhex(t, "5b7fffffffffffffff"),
		"a text nobody sent":        unhex(t, "7affffffff"),
		"a map of many":             manyPairs(4000),
		"nested arrays":             towers(t, "81", "80"),
		"nested maps":               towers(t, "a160", "a0"),
		"a great text":              join(unhex(t, "7a00100000"), bytes.Repeat([]byte("a"), 1<<20)),
	}
	const n = 5000
	bodies["an unknown field, then what is wrong"] = join(arrayOf(n), unhex(t, "a1186300"), make([]byte, n-1))
	for _, item := range []string{
		"00", "1818", "1903e8", "20", "f9c000", "fa40490fdb", "f4", "f6", "e0", "80", "8100", "8180",
		"a0", "a10000",
		"60", "6161", "61ff", "40", "4101", "a160f6", "a1616101", "a2617801617902", "a161ff01", "a14001", "a1a000",
		"a260006000", "a1186300", "a200f401f4",
	} {
		bodies["an array of "+item] = join(arrayOf(n), bytes.Repeat(unhex(t, item), n))
	}
	return bodies
}

// manyPairs is a map of n different texts.
func manyPairs(n int) []byte {
	b := mapOf(n)
	for i := range n {
		b = fmt.Appendf(append(b, 0x65), "%05x", i)
		b = append(b, 0)
	}
	return b
}

// towers is an array of towers: each is nearly as deep as a body permits.
func towers(t testing.TB, level, top string) []byte {
	return join(arrayOf(500), bytes.Repeat(unhex(t, strings.Repeat(level, 30)+top), 500))
}

func TestUnmarshal_usesProportionalMemory_WIRE6(t *testing.T) {
	for name, data := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			for _, v := range []any{
				new(any), new([]any), new(map[string]any), new([]byte), new(string), new([]int), new([]string),
				new([][]byte),
				new([]map[string]int), new([]wire.Error), new([]sample), new([]large),
			} {
				requireBody(t, wire.CBOR, data, v)
			}
			requireBounded(t, data, 0, 1024, func() { _, _ = wire.Bytes(data) })
		})
	}
}

func TestUnmarshal_largeBodyUsesProportionalMemory_WIRE6(t *testing.T) {
	some := 20
	switch {
	case raced:
		some = 50
	case testkit.Long():
		some = 1
	}
	for f, all := range items {
		for i, item := range all {
			data := many(t, f, 64<<10, item)
			for j, v := range targets() {
				if (i+j)%some == 0 {
					requireBody(t, f, data, v)
				}
			}
		}
	}
}

// requireBody requires that a body takes bounded memory, whether it is read or refused.
func requireBody(t *testing.T, f wire.Format, data []byte, v any) {
	t.Helper()
	requireBounded(t, data, bodyFactor, bodyMore, func() { _ = f.Decode(data, fresh(v)) })
	if f == wire.CBOR {
		requireBounded(t, data, bodyFactor, bodyMore,
			func() { _ = wire.UnmarshalCounting(data, fresh(v), new(atomic.Uint64)) })
	}
}

func TestControl_decodesInProportionalMemory_WIRE6(t *testing.T) {
	for name, data := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				kind  wire.PacketKind
				field string // of the body, which data is the value of
			}{
				{wire.LinkState, "a105"}, {wire.LinkState, "a2" + "186300" + "05"},
				{wire.LinkState, "a1" + "05" + "81" + "a1" + "04"},
				{wire.FateQuery, "a102"}, {wire.FateQuery, "a2" + "186300" + "02"}, {wire.Cancel, "a101"},
				{wire.Cancel, "a2" + "186300" + "01"},
				{wire.ReceiverReset, "a102"}, {wire.ConfirmRefusals, "a101"}, {wire.ConfirmRefusals, "a10a"},
				{wire.Resume, ""},
			} {
				packet := join(wire.AppendHead(nil, wire.Head{Kind: c.kind}), unhex(t, c.field), data)
				requireBounded(t, packet, bodyFactor, bodyMore, func() { _, _, _ = wire.DecodeControl(packet) })
				requireBounded(t, packet, bodyFactor, bodyMore,
					func() { _, _, _ = wire.DecodeControlCounting(packet, new(atomic.Uint64)) })
			}
		})
	}
}
