package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// requirePacketError requires that an error names its packet.
func requirePacketError(t *testing.T, err error) {
	require.True(t, strings.HasPrefix(err.Error(), "packet: "), err.Error())
}

// FuzzHead reads a whole packet by its kind.
func FuzzHead(f *testing.F) {
	for _, g := range heads {
		f.Add(unhex(f, g.hex))
		f.Add(join(unhex(f, g.hex), stream(f)))
	}
	for _, g := range controls {
		f.Add(unhex(f, g.hex))
	}
	f.Add(wire.AppendRepair(unhex(f, heads[4].hex), "c.a", join(unhex(f, heads[0].hex), stream(f))))
	f.Add(wire.AppendFragment(unhex(f, heads[5].hex), wire.FragmentHead{Total: 5}, []byte("part")))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, rest, err := wire.DecodeHead(data)
		if err != nil {
			requirePacketError(t, err)
			return
		}
		require.True(t, wire.IsPacket(data))
		again := wire.AppendHead(nil, h)
		require.LessOrEqual(t, len(again), wire.HeadSize)
		back, more, err := wire.DecodeHead(join(again, rest))
		require.NoError(t, err)
		require.Equal(t, h, back)
		require.True(t, bytes.Equal(rest, more))
		switch h.Kind {
		case wire.Data:
			checkEnvelopes(t, rest)
		case wire.Repair:
			checkRepair(t, rest)
		case wire.Fragment:
			checkPiece(t, rest)
		case wire.Probe:
		default:
			checkControl(t, data)
		}
	})
}

func FuzzEnvelopes(f *testing.F) {
	f.Add(stream(f))
	for _, g := range envelopes {
		f.Add(unhex(f, g.hex))
	}
	f.Fuzz(checkEnvelopes)
}

// requireBodies reads envelopes again, and those with nothing but a body by NextBody.
func requireBodies(t require.TestingT, data []byte, want []wire.Envelope, sames []bool, end error) {
	es := wire.NewEnvelopeReader(data)
	for i, e := range want {
		alone := sames[i] && e.Kind == wire.Message && e.TTL == 0 && e.Reply == "" && len(e.Ext) == 0
		begin := es.Offset()
		at, size, ok := es.NextBody()
		if ok {
			require.True(t, alone)
			require.Equal(t, e.Body, data[at:at+size:at+size])
			require.Equal(t, want[i-1].Wait, e.Wait)
			require.Equal(t, es.Offset(), at+size)
			continue
		}
		require.Equal(t, begin, es.Offset())
		same, ok := es.Next(new(wire.Envelope))
		require.True(t, ok)
		require.Equal(t, sames[i], same)
		require.False(t, alone && want[i-1].Wait == e.Wait, "it was to be read by its body")
	}
	_, _, ok := es.NextBody()
	require.False(t, ok)
	_, ok = es.Next(new(wire.Envelope))
	require.False(t, ok)
	requireEnd(t, &es)
	require.Equal(t, end, es.Err())
}

// checkEnvelopes reads envelopes, writes them, and reads them again.
func checkEnvelopes(t *testing.T, data []byte) {
	requireBounded(t, data, packetFactor, bodyMore, func() { readEnvelopes(data) })
	es := wire.NewEnvelopeReader(data)
	var written []byte
	var read []wire.Envelope
	var sames []bool
	for {
		var e wire.Envelope
		same, ok := es.Next(&e)
		if !ok {
			break
		}
		require.True(t, len(read) > 0 || !same)
		before := len(written)
		written = e.Append(written, same)
		require.LessOrEqual(t, len(written)-before, e.Size())
		require.LessOrEqual(t, len(e.Reply)+len(e.Ext)+len(e.Body), len(data))
		switch e.Kind {
		case wire.Chunk:
			checkChunk(t, e.Ext, len(e.Body))
		case wire.Message:
			require.Equal(t, string(e.Ext), string(bytesOf(e.CopyTrace())))
		}
		read, sames = append(read, e), append(sames, same)
	}
	if es.Err() != nil {
		requirePacketError(t, es.Err())
	}
	requireEnd(t, &es)
	requireBodies(t, data, read, sames, es.Err())
	back := wire.NewEnvelopeReader(written)
	for i := range read {
		var e wire.Envelope
		same, ok := back.Next(&e)
		require.True(t, ok, back.Err())
		require.Equal(t, sames[i], same)
		require.Equal(t, normal(read[i]), normal(e))
	}
	requireEnd(t, &back)
	require.NoError(t, back.Err())
}

// bytesOf is a trace as it travels.
func bytesOf(trace *wire.Trace) []byte {
	if trace == nil {
		return nil
	}
	return trace[:]
}

func FuzzRepair(f *testing.F) {
	f.Add(wire.AppendRepair(nil, "c.a", unhex(f, heads[0].hex)))
	f.Add(unhex(f, "ffffffff7f"+"61"))
	f.Fuzz(checkRepair)
}

func checkRepair(t *testing.T, data []byte) {
	requireBounded(t, data, packetFactor, bodyMore, func() { _, _, _ = wire.DecodeRepair(data) })
	subject, packet, err := wire.DecodeRepair(data)
	if err != nil {
		requirePacketError(t, err)
		return
	}
	gotSubject, got, err := wire.DecodeRepair(wire.AppendRepair(nil, subject, packet))
	require.NoError(t, err)
	require.Equal(t, subject, gotSubject)
	require.True(t, bytes.Equal(packet, got))
}

func FuzzPiece(f *testing.F) {
	f.Add(wire.AppendFragment(nil, wire.FragmentHead{Offset: 3, Total: 5}, []byte("rt")))
	f.Add(unhex(f, "00"+"ffffffff07"+"aa"))
	f.Fuzz(checkPiece)
}

func checkPiece(t *testing.T, data []byte) {
	c, part, err := wire.DecodeFragment(data)
	if err != nil {
		requirePacketError(t, err)
		return
	}
	require.NotEmpty(t, part)
	require.GreaterOrEqual(t, c.Offset, 0)
	require.LessOrEqual(t, c.Offset+len(part), c.Total)
	back, got, err := wire.DecodeFragment(wire.AppendFragment(nil, c, part))
	require.NoError(t, err)
	require.Equal(t, c, back)
	require.True(t, bytes.Equal(part, got))
}

func FuzzChunk(f *testing.F) {
	f.Add(wire.ChunkHead{ID: 7, Offset: 3, Total: 5}.Append(nil), 2)
	f.Add(wire.ChunkHead{ID: 7}.Append(nil), 0)
	f.Fuzz(checkChunk)
}

func checkChunk(t *testing.T, ext []byte, size int) {
	c, err := wire.DecodeChunk(ext, size)
	if err != nil {
		requirePacketError(t, err)
		return
	}
	require.GreaterOrEqual(t, c.Offset, 0)
	require.LessOrEqual(t, size, c.Total-c.Offset)
	require.Equal(t, c.Total == 0, size == 0)
	back, err := wire.DecodeChunk(c.Append(nil), size)
	require.NoError(t, err)
	require.Equal(t, c, back)
}

func FuzzControl(f *testing.F) {
	for _, g := range controls {
		b := unhex(f, g.hex)
		f.Add(b)
		if g.body != nil {
			f.Add(join(b[:controlHead], newer(f, b[controlHead:])))
		}
	}
	f.Fuzz(checkControl)
}

// checkControl reads a control packet. Counting changes nothing, and the rewritten packet has no
// unknown field.
func checkControl(t *testing.T, data []byte) {
	var unknown atomic.Uint64
	requireBounded(t, data, bodyFactor, bodyMore, func() {
		unknown.Store(0)
		_, _, _ = wire.DecodeControlCounting(data, &unknown)
	})
	require.LessOrEqual(t, unknown.Load(), uint64(1))
	kind, body, err := wire.DecodeControl(data)
	countedKind, counted, countedErr := wire.DecodeControlCounting(data, &unknown)
	require.Equal(t, err == nil, countedErr == nil)
	if err != nil {
		require.Equal(t, strings.HasPrefix(err.Error(), "packet: "),
			strings.HasPrefix(countedErr.Error(), "packet: "))
		require.Nil(t, body)
		return
	}
	require.Equal(t, kind, countedKind)
	require.Equal(t, body, counted)
	written, err := wire.AppendControl(nil, kind, body)
	require.NoError(t, err)
	unknown.Store(0)
	_, again, err := wire.DecodeControlCounting(written, &unknown)
	require.NoError(t, err)
	require.Zero(t, unknown.Load())
	rewritten, err := wire.AppendControl(nil, kind, again)
	require.NoError(t, err)
	require.Equal(t, written, rewritten)
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		"a0", "a2616101616102", "83010203", "f6", "9b7fffffffffffffff", "c100", "61ff", "9a00ffffff", "ba00ffffff",
		strings.Repeat("81", 33) + "00", strings.Repeat("a160", 33) + "00", "88" + "0001020304050607", "41aa",
		"58020102", "f97e00", "a16149f5",
	} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		requireBounded(t, data, bodyFactor, bodyMore, func() { _ = wire.Unmarshal(data, &v) })
		v = nil
		if wire.Unmarshal(data, &v) == nil {
			checkRewritten[any](t, v)
		}
		checkTyped[sample](t, data)
		checkTyped[wire.Error](t, data)
		checkTyped[[]byte](t, data)
		var syntax *json.SyntaxError
		if err := wire.JSON.Decode(data, &v); errors.As(err, &syntax) {
			require.NotEmpty(t, err.Error())
		}
	})
}

// checkTyped reads data into a T: counting changes nothing.
func checkTyped[T any](t *testing.T, data []byte) {
	var plain, counted T
	var unknown atomic.Uint64
	requireBounded(t, data, bodyFactor, bodyMore, func() {
		unknown.Store(0)
		_ = wire.UnmarshalCounting(data, new(T), &unknown)
	})
	unknown.Store(0)
	err := wire.Unmarshal(data, &plain)
	countedErr := wire.UnmarshalCounting(data, &counted, &unknown)
	require.Equal(t, err == nil, countedErr == nil)
	require.LessOrEqual(t, unknown.Load(), uint64(1))
	if err != nil {
		require.Zero(t, unknown.Load())
		return
	}
	a, b := checkRewritten(t, plain), checkRewritten(t, counted)
	require.Equal(t, a, b)
}

// checkRewritten requires that a decoded value encodes, and decodes to itself again.
func checkRewritten[T any](t *testing.T, v T) []byte {
	first, err := wire.Marshal(v)
	require.NoError(t, err)
	appended, err := wire.AppendMarshal(nil, v)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, appended))
	var again T
	require.NoError(t, wire.Unmarshal(first, &again))
	second, err := wire.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, first, second)
	return first
}

// FuzzBytes requires that Bytes and Unmarshal accept the same byte strings.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"", "40", "41aa", "5801aa", "590001aa", "5a00000001aa", "5b0000000000000001aa",
		"5c", "5f41aaff", "60", "f6", "8101"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []byte
		err := wire.Unmarshal(data, &want)
		got, ok := wire.Bytes(data)
		isBytes := len(data) > 0 && data[0]>>5 == 2
		require.Equal(t, err == nil && isBytes, ok)
		if ok {
			require.True(t, bytes.Equal(want, got))
			require.Len(t, got, cap(got))
		} else {
			require.Nil(t, got)
		}
	})
}
