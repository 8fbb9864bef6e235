package wire_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

// golden are frames as they are on the bus: a change here breaks every peer of another build.
var golden = []struct {
	name  string
	frame wire.Frame
	hex   string
}{
	{"the least", wire.Frame{Kind: wire.Message}, "000101" + "000000" + "000000"},
	{"a message", wire.Frame{
		Kind: wire.Message, N: 300, Prev: 299, TTL: 1500 * time.Millisecond,
		Sender: "client", Reply: "m/0.0/a:_1", Ext: []byte{0xa0}, Body: []byte{0x05},
	}, "000101" + "ac02" + "ab02" + "dc0b" + "06636c69656e74" + "0a6d2f302e302f613a5f31" + "01a0" + "05"},
	{"a value", wire.Frame{Kind: wire.Value, N: 1, Sender: "a", Body: []byte{0xf6}}, "000102" + "010000" + "0161" + "0000" + "f6"},
	{"a failure", wire.Frame{Kind: wire.Failure, N: 2, Prev: 1}, "000103" + "020100" + "000000"},
	{"a cast", wire.Frame{Kind: wire.Cast, N: 7, Ext: []byte{1, 2}}, "000104" + "070000" + "0000" + "020102"},
	{"a bounce", wire.Frame{Kind: wire.Bounce}, "000105" + "000000" + "000000"},
	{"a break", wire.Frame{Kind: wire.Break}, "000106" + "000000" + "000000"},
	{"a part of a millisecond", wire.Frame{Kind: wire.Message, TTL: 1}, "000101" + "000001" + "000000"},
}

func TestWIRE4_framesHaveTheBytesTheyAlwaysHad(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			require.Equal(t, g.hex, hex.EncodeToString(g.frame.Append(nil)))
			require.LessOrEqual(t, len(g.hex)/2, g.frame.Size())
			data, err := hex.DecodeString(g.hex)
			require.NoError(t, err)
			f, err := wire.Decode(data)
			require.NoError(t, err)
			require.Equal(t, g.hex, hex.EncodeToString(f.Append(nil)))
		})
	}
}

func TestFrame_survivesTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		b := f.Append([]byte("before"))
		got, err := wire.Decode(b[len("before"):])
		require.NoError(t, err)
		require.Equal(t, same(f), same(got))
		require.LessOrEqual(t, len(b)-len("before"), f.Size())
	})
}

func drawFrame(t *rapid.T) wire.Frame {
	return wire.Frame{
		Kind: wire.Kind(rapid.IntRange(1, 6).Draw(t, "kind")),
		N:    rapid.Uint64().Draw(t, "n"), Prev: rapid.Uint64().Draw(t, "prev"),
		TTL:    time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ttl")) * time.Microsecond,
		Sender: rapid.String().Draw(t, "sender"), Reply: rapid.String().Draw(t, "reply"),
		Ext: rapid.SliceOf(rapid.Byte()).Draw(t, "ext"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
	}
}

// same is a frame with what may differ made equal: empty and nil, parts of a millisecond.
func same(f wire.Frame) wire.Frame {
	f.TTL = (f.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
	f.Ext, f.Body = append([]byte{}, f.Ext...), append([]byte{}, f.Body...)
	return f
}

func TestFrame_aDeadlineBeyondTheBoundIsCutWhenSentAndRefusedWhenReceived(t *testing.T) {
	f, err := wire.Decode(wire.Frame{Kind: wire.Message, TTL: 1<<63 - 1}.Append(nil))
	require.NoError(t, err)
	require.Equal(t, 365*24*time.Hour, f.TTL)
	f, err = wire.Decode(wire.Frame{Kind: wire.Message, TTL: -1}.Append(nil))
	require.NoError(t, err)
	require.Zero(t, f.TTL)
	_, err = wire.Decode(unhex(t, "000101"+"0000"+"ffffffffff0f"+"000000"))
	require.ErrorContains(t, err, "ttl of")
}

func TestDecode_namesWhatIsMalformed(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "want first byte 0x00"},
		{"7b7d", "want first byte 0x00"},
		{"00", "1 bytes, want at least 3"},
		{"0001", "2 bytes, want at least 3"},
		{"000201", "version 2, want 1"},
		{"000100", "unknown kind 0"},
		{"000107", "unknown kind 7"},
		{"000101", "field n"},
		{"00010101", "field prev"},
		{"0001010101", "field ttl"},
		{"000101010100", "field sender"},
		{"00010101010005", "field sender: length 5, but 0 bytes are left"},
		{"00010101010000", "field reply"},
		{"0001010101000000", "field ext"},
		{"000101" + "ffffffffffffffffffff01", "field n: malformed"},
		{"000101010100" + "ffffffffffffffffff01", "field sender: length 18446744073709551615"},
	} {
		_, err := wire.Decode(unhex(t, c.hex))
		require.ErrorContains(t, err, c.want, c.hex)
	}
}

func TestWIRE1_decodeTakesNoMoreMemoryThanItsInput(t *testing.T) {
	big := wire.Frame{Kind: wire.Message, Ext: make([]byte, 1<<20), Body: make([]byte, 1<<20)}.Append(nil)
	f, err := wire.Decode(big)
	require.NoError(t, err)
	f.Body[0] = 9
	require.Equal(t, byte(9), big[len(big)-len(f.Body)], "the frame shares the input's memory")
	require.Len(t, append(f.Ext, 7), len(f.Ext)+1)
	require.Equal(t, byte(9), f.Body[0], "growing ext does not write into the body")
	lying := unhex(t, "000101010100"+"ffffffff7f")
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_, _ = wire.Decode(lying)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(1024), "a length nobody sent reserves nothing")
}

func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		data, err := hex.DecodeString(g.hex)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := wire.Decode(data)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "frame: "), err.Error())
			return
		}
		require.True(t, wire.IsFrame(data))
		require.LessOrEqual(t, len(got.Sender)+len(got.Reply)+len(got.Ext)+len(got.Body), len(data))
		again, err := wire.Decode(got.Append(nil))
		require.NoError(t, err)
		require.Equal(t, same(got), same(again))
	})
}

func BenchmarkFrame(b *testing.B) {
	f := wire.Frame{
		Kind: wire.Message, N: 1e6, Prev: 1e6 - 1, TTL: 30 * time.Second,
		Sender: "counter-0c8h4w2n6v1ye", Reply: "trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye:_7",
		Body: bytes.Repeat([]byte{1}, 128),
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(f.Append(make([]byte, 0, f.Size()))); err != nil {
			b.Fatal(err)
		}
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}
