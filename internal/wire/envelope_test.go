package wire_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

// traced is the trace of the W3C's example.
var traced = wire.Trace{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80,
	0x31, 0x9c, 0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31, 1}

// envelopes are what a Data packet may hold, in this order, as it is on the bus.
var envelopes = []struct {
	name string
	env  wire.Envelope
	same bool
	hex  string
}{
	{"the least", wire.Envelope{Kind: wire.Message}, false, "01" + "000000" + "00"},
	{"a message", wire.Envelope{
		Kind: wire.Message, Actor: "counter", Port: "add", Sender: "client", TTL: 1500 * time.Millisecond,
		Reply: "m/0.0/a:_1", Body: []byte{0x05},
	}, false, "31" + "07636f756e746572" + "03616464" + "06636c69656e74" + "dc0b" + "0a6d2f302e302f613a5f31" +
		"0105"},
	{"a traced one to the same", wire.Envelope{Kind: wire.Message, Actor: "counter", Port: "add",
		Sender: "client", Ext: traced[:], Body: []byte{5}}, true, "49" + "19" + "0af7651916cd43dd8448eb211c80319c" +
		"b7ad6b7169203331" + "01" + "0105"},
	{"another to the same", wire.Envelope{Kind: wire.Message, Actor: "counter", Port: "add", Sender: "client",
		Body: []byte{6}}, true, "09" + "0106"},
	{"one that waits for room", wire.Envelope{
		Kind: wire.Message, Wait: true, Actor: "counter", Port: "add", Sender: "client", TTL: time.Second,
	}, true, "99" + "e807" + "00"},
	{"a value", wire.Envelope{Kind: wire.Value, Actor: "a", Port: "_1", Body: []byte{0xf6}}, false,
		"02" + "0161" + "025f31" + "00" + "01f6"},
	{"a failure", wire.Envelope{Kind: wire.Failure, Actor: "a", Port: "_1", Body: []byte{0xa0}}, true,
		"0b" + "01a0"},
	{"a cast", wire.Envelope{Kind: wire.Cast, Sender: "s", Reply: "r", Ext: []byte{1, 2}}, false,
		"64" + "0000" + "0173" + "0172" + "020102" + "00"},
	{"a chunk", wire.Envelope{
		Kind: wire.Chunk, Ext: wire.ChunkHead{ID: 300, Offset: 5, Total: 1 << 20}.Append(nil), Body: []byte{0xaa},
	}, false, "45" + "000000" + "06" + "ac02" + "05" + "808040" + "01aa"},
	{"the end of chunks", wire.Envelope{Kind: wire.Chunk, Ext: wire.ChunkHead{ID: 300}.Append(nil)}, true,
		"4d" + "04" + "ac02" + "00" + "00" + "00"},
	{"a bounce", wire.Envelope{Kind: wire.Bounce, Actor: "a", Port: "p", Body: []byte{0xa0}}, false,
		"06" + "0161" + "0170" + "00" + "01a0"},
	{"a part of a millisecond", wire.Envelope{Kind: wire.Message, TTL: 1}, false, "11" + "000000" + "01" + "00"},
}

// stream is all envelopes in one packet.
func stream(t testing.TB) (b []byte) {
	for _, g := range envelopes {
		b = append(b, unhex(t, g.hex)...)
	}
	return b
}

func TestEnvelopes_matchGoldenBytes_WIRE4(t *testing.T) {
	var b []byte
	for _, g := range envelopes {
		before := len(b)
		b = g.env.Append(b, g.same)
		require.Equal(t, g.hex, hex.EncodeToString(b[before:]), g.name)
	}
	es := wire.NewEnvelopeReader(b)
	for _, g := range envelopes {
		var e wire.Envelope
		same, ok := es.Next(&e)
		require.True(t, ok, "%s: %v", g.name, es.Err())
		require.Equal(t, g.same, same, g.name)
		require.Equal(t, normal(g.env), normal(e), g.name)
	}
	requireEnd(t, &es)
	require.NoError(t, es.Err())
}

// normal is an envelope without permitted differences: empty and nil, parts of a millisecond.
func normal(e wire.Envelope) wire.Envelope {
	e.TTL = (e.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
	e.Ext, e.Body = append([]byte{}, e.Ext...), append([]byte{}, e.Body...)
	return e
}

// requireEnd requires that all further reads return the end.
func requireEnd(t require.TestingT, es *wire.EnvelopeReader) {
	for range 2 {
		same, ok := es.Next(new(wire.Envelope))
		require.False(t, ok)
		require.False(t, same)
	}
}

func TestEnvelopes_roundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []wire.Envelope
		var sames []bool
		var b []byte
		for i := range rapid.IntRange(0, 8).Draw(t, "envelopes") {
			e := drawEnvelope(t)
			same := i > 0 && rapid.Bool().Draw(t, "same target")
			if same {
				e.Actor, e.Port, e.Sender = want[i-1].Actor, want[i-1].Port, want[i-1].Sender
			}
			before := len(b)
			b = e.Append(b, same)
			require.LessOrEqual(t, len(b)-before, e.Size())
			want, sames = append(want, e), append(sames, same)
		}
		es := wire.NewEnvelopeReader(b)
		var read []wire.Envelope
		for i := range want {
			var e wire.Envelope
			same, ok := es.Next(&e)
			require.True(t, ok, es.Err())
			require.Equal(t, sames[i], same)
			require.Equal(t, normal(want[i]), normal(e))
			read = append(read, e)
		}
		requireEnd(t, &es)
		require.NoError(t, es.Err())
		requireBodies(t, b, read, sames, nil)
	})
}

func drawEnvelope(t *rapid.T) wire.Envelope {
	text := rapid.String()
	if rapid.Bool().Draw(t, "a body alone") {
		return wire.Envelope{Kind: wire.Message, Wait: rapid.Bool().Draw(t, "wait"), Body: drawBytes(t, "body")}
	}
	e := wire.Envelope{
		Kind:  wire.Kind(rapid.ByteRange(byte(wire.Message), byte(wire.Bounce)).Draw(t, "kind")),
		Wait:  rapid.Bool().Draw(t, "wait"),
		Actor: text.Draw(t, "actor"), Port: text.Draw(t, "port"), Sender: text.Draw(t, "sender"),
		TTL:   time.Duration(rapid.Int64Range(0, int64(year)).Draw(t, "ttl")),
		Reply: text.Draw(t, "reply"), Body: drawBytes(t, "body"),
	}
	switch {
	case e.Kind != wire.Message:
		e.Ext = drawBytes(t, "ext")
	case rapid.Bool().Draw(t, "is traced"):
		e.Ext = drawTrace(t)
	}
	return e
}

// drawTrace is a trace of any IDs but zeros.
func drawTrace(t *rapid.T) []byte {
	return rapid.SliceOfN(rapid.Byte(), len(wire.Trace{}), len(wire.Trace{})).Filter(func(b []byte) bool {
		_, err := wire.DecodeTrace(b)
		return err == nil
	}).Draw(t, "trace")
}

func TestEnvelope_withoutATraceHasNoByteOfIt(t *testing.T) {
	e := wire.Envelope{Kind: wire.Message, Actor: "a", Port: "p", Sender: "s", Body: []byte{5}}
	plain := e.Append(nil, false)
	require.Nil(t, e.CopyTrace())
	e.Ext = traced[:]
	require.Len(t, e.Append(nil, false), len(plain)+1+len(traced))
	mine := e.CopyTrace()
	require.Equal(t, &traced, mine)
	require.NotSame(t, &e.Ext[0], &mine[0], "it keeps no packet")
}

func TestEnvelope_encodingCapsTheDeadline(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{{-1, 0}, {0, 0}, {1, time.Millisecond}, {year, year},
		{math.MaxInt64, year}} {
		es := wire.NewEnvelopeReader((&wire.Envelope{Kind: wire.Message, TTL: c.ttl}).Append(nil, false))
		var e wire.Envelope
		_, ok := es.Next(&e)
		require.True(t, ok)
		require.Equal(t, c.want, e.TTL)
	}
}

func TestEnvelopes_nameWhatIsMalformed(t *testing.T) {
	const most = "ffffffffffffffffff01" // 2^64 - 1
	for _, c := range []struct{ hex, want string }{
		{"00" + "00000000", "packet: unknown kind of envelope 0"},
		{"07" + "00000000", "packet: unknown kind of envelope 7"},
		{"ff", "packet: unknown kind of envelope 7"},
		{"09" + "00", "packet: the first envelope refers to an earlier target"},
		{"01", "packet: field actor: malformed or missing number"},
		{"01" + "05" + "6161", "packet: field actor: length 5, but 2 bytes are left"},
		{"01" + "0161", "packet: field port: malformed or missing number"},
		{"01" + "0161" + most, "packet: field port: length 18446744073709551615, but 0 bytes are left"},
		{"01" + "0161" + "00", "packet: field sender: malformed or missing number"},
		{"01" + "000000", "packet: field body: malformed or missing number"},
		{"01" + "000000" + "02" + "aa", "packet: field body: length 2, but 1 bytes are left"},
		{"01" + "000000" + "ffffffffffffffffffff01", "packet: field body: malformed or missing number"},
		{"11" + "000000", "packet: field ttl: malformed or missing number"},
		{"11" + "000000" + "81d8c4bd75" + "00", "packet: ttl of 31536000001 ms, want at most 31536000000"},
		{"11" + "000000" + most + "00", "packet: ttl of 18446744073709551615 ms, want at most 31536000000"},
		{"21" + "000000", "packet: field reply: malformed or missing number"},
		{"21" + "000000" + "0161", "packet: field body: malformed or missing number"},
		{"41" + "000000" + "03" + "0000", "packet: field ext: length 3, but 2 bytes are left"},
		{"41" + "000000" + "00" + "00", "packet: field ext: a trace of 0 bytes, want 25"},
		{"41" + "000000" + "18" + strings.Repeat("01", 24) + "00",
			"packet: field ext: a trace of 24 bytes, want 25"},
		{"41" + "000000" + "1a" + strings.Repeat("01", 26) + "00",
			"packet: field ext: a trace of 26 bytes, want 25"},
		{"41" + "000000" + "19" + strings.Repeat("00", 16) + strings.Repeat("01", 9) + "00",
			"packet: field ext: a trace with an ID of zeros"},
		{"41" + "000000" + "19" + strings.Repeat("01", 16) + strings.Repeat("00", 8) + "01" + "00",
			"packet: field ext: a trace with an ID of zeros"},
		{"01" + "00000000" + "09", "packet: field body: malformed or missing number"},
	} {
		es := wire.NewEnvelopeReader(unhex(t, c.hex))
		for {
			if _, ok := es.Next(new(wire.Envelope)); !ok {
				break
			}
		}
		require.EqualError(t, es.Err(), c.want, c.hex)
		requireEnd(t, &es)
	}
}

func TestEnvelopes_truncationYieldsAnErrorOrFewer(t *testing.T) {
	whole := stream(t)
	ends := map[int]bool{0: true}
	at := 0
	for _, g := range envelopes {
		at += len(g.hex) / 2
		ends[at] = true
	}
	for n := range whole {
		es := wire.NewEnvelopeReader(whole[:n])
		for {
			if _, ok := es.Next(new(wire.Envelope)); !ok {
				break
			}
		}
		require.Equal(t, ends[n], es.Err() == nil, "%d of %d bytes: %v", n, len(whole), es.Err())
	}
}

func TestChunk_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := wire.ChunkHead{ID: rapid.Uint64().Draw(t, "id"),
			Total: rapid.IntRange(1, math.MaxInt32).Draw(t, "total")}
		c.Offset = rapid.IntRange(0, c.Total-1).Draw(t, "offset")
		got, err := wire.DecodeChunk(c.Append(nil), rapid.IntRange(1, c.Total-c.Offset).Draw(t, "size"))
		require.NoError(t, err)
		require.Equal(t, c, got)
		_, err = wire.DecodeChunk(c.Append(nil), c.Total-c.Offset+1)
		require.Error(t, err, "one byte more than the whole has")
	})
}

func TestDecodeChunk_refusesRangesOutsideTheTotal(t *testing.T) {
	for _, c := range []struct {
		hex  string
		size int
		want string
	}{
		{"", 1, "packet: field chunk id: malformed or missing number"},
		{"07", 1, "packet: field offset: malformed or missing number"},
		{"0700", 1, "packet: field total: malformed or missing number"},
		{"07" + "00" + "00", 1, "packet: a chunk of 1 bytes at 0 of 0"},
		{"07" + "01" + "00", 0, "packet: a chunk of 0 bytes at 1 of 0"},
		{"07" + "00" + "05", 0, "packet: a chunk of 0 bytes at 0 of 5"},
		{"07" + "00" + "05", -1, "packet: a chunk of -1 bytes at 0 of 5"},
		{"07" + "00" + "05", 6, "packet: a chunk of 6 bytes at 0 of 5"},
		{"07" + "05" + "05", 1, "packet: a chunk of 1 bytes at 5 of 5"},
		{"07" + "06" + "05", 1, "packet: a chunk of 1 bytes at 6 of 5"},
		{"07" + "ffffffffffffffffff01" + "05", 1, "packet: a chunk of 1 bytes at 18446744073709551615 of 5"},
		{"07" + "00" + "ffffffffffffffffff01", 1, "packet: a chunk of 1 bytes at 0 of 18446744073709551615"},
		{"07" + "00" + "8080808008", 1, fmt.Sprintf("packet: a chunk of 1 bytes at 0 of %d", 1<<31)},
	} {
		got, err := wire.DecodeChunk(unhex(t, c.hex), c.size)
		require.EqualError(t, err, c.want, c.hex)
		require.Zero(t, got)
	}
}

func TestDecodeChunk_zeroTotalAbandonsTheMessage(t *testing.T) {
	got, err := wire.DecodeChunk(wire.ChunkHead{ID: 7}.Append(nil), 0)
	require.NoError(t, err)
	require.Equal(t, wire.ChunkHead{ID: 7}, got)
}

func BenchmarkEnvelopes(b *testing.B) {
	head := wire.Head{Kind: wire.Data, Seq: 1e6, PrevSeq: 1e6 - 1}
	e := wire.Envelope{
		Kind: wire.Message, Actor: "counter-0c8h4w2n6v1ye", Port: "add", Sender: "client-7kd93x0b5m2qa",
		TTL:   30 * time.Second,
		Reply: "trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye:_7", Body: make([]byte, 128),
	}
	var packet []byte
	b.ReportAllocs()
	for b.Loop() {
		packet = wire.AppendHead(packet[:0], head)
		for i := range 16 {
			packet = e.Append(packet, i > 0)
		}
		_, rest, err := wire.DecodeHead(packet)
		if err != nil {
			b.Fatal(err)
		}
		es := wire.NewEnvelopeReader(rest)
		for n := range 17 {
			var got wire.Envelope
			if _, ok := es.Next(&got); ok != (n < 16) {
				b.Fatal(es.Err())
			}
		}
	}
}
