package wire_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

const year = 365 * 24 * time.Hour

// heads are the beginnings of packets in their form on the bus: a change here breaks every peer of
// another build.
var heads = []struct {
	name string
	head wire.Head
	hex  string
}{
	{"data", wire.Head{Kind: wire.Data, Seq: 300, PrevSeq: 299}, "00020100" + "00" + "ac02" + "ab02"},
	{"data that waited", wire.Head{Kind: wire.Data, Age: 1500 * time.Millisecond, Seq: 1},
		"00020100" + "dc0b" + "01" + "00"},
	{"data and what has come", wire.Head{
		Kind: wire.Data, Seq: 2, PrevSeq: 1,
		Ack: &wire.AckState{Acked: 5, ReceivedBytes: 300, Window: 1 << 20},
	}, "00020101" + "00" + "02" + "01" + "05" + "ac02" + "808040"},
	{"a beat", wire.Head{Kind: wire.Probe, Seq: 7, PrevSeq: 5}, "00020200" + "00" + "07" + "05"},
	{"a repair", wire.Head{Kind: wire.Repair, Seq: 9, PrevSeq: 4}, "00020300" + "00" + "09" + "04"},
	{"a piece", wire.Head{Kind: wire.Fragment, Seq: 9, PrevSeq: 4}, "00020400" + "00" + "09" + "04"},
	{"a state", wire.Head{Kind: wire.LinkState}, "00020500" + "000000"},
	{"a confirm", wire.Head{Kind: wire.ConfirmRefusals}, "00020600" + "000000"},
	{"a break", wire.Head{Kind: wire.ReceiverReset}, "00020700" + "000000"},
	{"a gone", wire.Head{Kind: wire.SenderReset}, "00020800" + "000000"},
	{"a query", wire.Head{Kind: wire.FateQuery}, "00020900" + "000000"},
	{"a verdict", wire.Head{Kind: wire.FateReply}, "00020a00" + "000000"},
	{"a cancel", wire.Head{Kind: wire.Cancel}, "00020b00" + "000000"},
	{"a resume", wire.Head{Kind: wire.Resume}, "00020c00" + "000000"},
	{"a bye", wire.Head{Kind: wire.Goodbye}, "00020d00" + "000000"},
	{"the largest", wire.Head{Kind: wire.Data, Age: year, Seq: math.MaxUint64,
		PrevSeq: math.MaxUint64}, "00020100" +
		"80d8c4bd75" + "ffffffffffffffffff01" + "ffffffffffffffffff01"},
}

func TestHeads_matchGoldenBytes_WIRE4(t *testing.T) {
	for _, g := range heads {
		t.Run(g.name, func(t *testing.T) {
			require.Equal(t, g.hex, hex.EncodeToString(wire.AppendHead(nil, g.head)))
			h, rest, err := wire.DecodeHead(append(unhex(t, g.hex), "rest"...))
			require.NoError(t, err)
			require.Equal(t, g.head, h)
			require.Equal(t, "rest", string(rest))
		})
	}
}

func TestHead_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, rest := drawHead(t), drawBytes(t, "rest")
		b := wire.AppendHead([]byte("before"), h)[len("before"):]
		require.LessOrEqual(t, len(b), wire.HeadSize)
		require.True(t, wire.IsPacket(b))
		got, left, err := wire.DecodeHead(join(b, rest))
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.Equal(t, string(rest), string(left))
	})
}

func drawHead(t *rapid.T) wire.Head {
	h := wire.Head{
		Kind: wire.PacketKind(rapid.ByteRange(byte(wire.Data), byte(wire.Goodbye)).Draw(t, "kind")),
		Age:  time.Duration(rapid.Int64Range(0, int64(year/time.Millisecond)).Draw(t, "age")) * time.Millisecond,
		Seq:  rapid.Uint64().Draw(t, "n"), PrevSeq: rapid.Uint64().Draw(t, "prev"),
	}
	if rapid.Bool().Draw(t, "knows") {
		number := rapid.Uint64()
		h.Ack = &wire.AckState{
			Acked: number.Draw(t, "acked"), ReceivedBytes: number.Draw(t, "taken"), Window: number.Draw(t, "window"),
		}
	}
	return h
}

func drawBytes(t *rapid.T, label string) []byte { return rapid.SliceOf(rapid.Byte()).Draw(t, label) }

func TestHead_ageIsMillisecondsWithinAYear(t *testing.T) {
	for _, c := range []struct{ age, want time.Duration }{
		{-time.Hour, 0}, {time.Millisecond - 1, 0}, {2*time.Millisecond - 1, time.Millisecond}, {year, year},
		{math.MaxInt64, year},
	} {
		h, _, err := wire.DecodeHead(wire.AppendHead(nil, wire.Head{Kind: wire.Data, Age: c.age}))
		require.NoError(t, err)
		require.Equal(t, c.want, h.Age, c.age.String())
	}
}

func TestDecodeHead_namesWhatIsMalformed(t *testing.T) {
	const tooLong = "ffffffffffffffffffff01" // eleven bytes
	for _, c := range []struct{ hex, want string }{
		{"", "packet: want first byte 0x00, got 0 bytes without it"},
		{"7b7d", "packet: want first byte 0x00, got 2 bytes without it"},
		{"00", "packet: 1 bytes, want at least 4"},
		{"000201", "packet: 3 bytes, want at least 4"},
		{"00010100000000", "packet: version 1, want 2"},
		{"00030100000000", "packet: version 3, want 2"},
		{"00020000000000", "packet: unknown kind 0"},
		{"00020f00000000", "packet: unknown kind 15"},
		{"0002ff00000000", "packet: unknown kind 255"},
		{"00020102000000", "packet: unknown flags 0x2"},
		{"00020180000000", "packet: unknown flags 0x80"},
		{"00020100", "packet: field age: malformed or missing number"},
		{"00020100" + "80", "packet: field age: malformed or missing number"},
		{"00020100" + tooLong, "packet: field age: malformed or missing number"},
		{"00020100" + "00", "packet: field n: malformed or missing number"},
		{"00020100" + "00" + tooLong, "packet: field n: malformed or missing number"},
		{"00020100" + "0000", "packet: field prev: malformed or missing number"},
		{"00020101" + "000000", "packet: field acked: malformed or missing number"},
		{"00020101" + "000000" + "01", "packet: field taken: malformed or missing number"},
		{"00020101" + "000000" + "0101", "packet: field window: malformed or missing number"},
		{"00020100" + "81d8c4bd75" + "0000", "packet: age of 31536000001 ms, want at most 31536000000"},
		{"00020100" + "ffffffffffffffffff01" + "0000",
			"packet: age of 18446744073709551615 ms, want at most 31536000000"},
	} {
		h, rest, err := wire.DecodeHead(unhex(t, c.hex))
		require.EqualError(t, err, c.want, c.hex)
		require.Nil(t, rest)
		require.Nil(t, h.Ack)
	}
}

func TestDecodeHead_refusesEveryTruncation(t *testing.T) {
	for _, g := range heads {
		whole := unhex(t, g.hex)
		for n := range whole {
			_, _, err := wire.DecodeHead(whole[:n])
			require.Error(t, err, "%s, %d of %d bytes", g.name, n, len(whole))
		}
	}
}

func TestIsPacket_checksTheFirstByte(t *testing.T) {
	require.True(t, wire.IsPacket([]byte{0}))
	for _, foreign := range []string{"", "{}", "[1]", "\xa0", " "} {
		require.False(t, wire.IsPacket([]byte(foreign)), "%q", foreign)
	}
}

func TestRepairsAndPieces_matchGoldenBytes_WIRE4(t *testing.T) {
	repair := wire.AppendRepair([]byte{9}, "c.a", []byte{0, 2, 1})
	require.Equal(t, "09"+"03632e61"+"000201", hex.EncodeToString(repair))
	piece := wire.AppendFragment([]byte{9}, wire.FragmentHead{Offset: 300, Total: 1 << 20}, []byte{0xaa, 0xbb})
	require.Equal(t, "09"+"ac02"+"808040"+"aabb", hex.EncodeToString(piece))
}

func TestRepair_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subject, packet := rapid.String().Draw(t, "subject"), drawBytes(t, "packet")
		gotSubject, got, err := wire.DecodeRepair(wire.AppendRepair(nil, subject, packet))
		require.NoError(t, err)
		require.Equal(t, subject, gotSubject)
		require.Equal(t, string(packet), string(got))
	})
}

func TestDecodeRepair_namesWhatIsMalformed(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "packet: field subject: malformed or missing number"},
		{"80", "packet: field subject: malformed or missing number"},
		{"03" + "6162", "packet: field subject: length 3, but 2 bytes are left"},
		{"ffffffffffffffffff01" + "61", "packet: field subject: length 18446744073709551615, but 1 bytes are left"},
	} {
		_, _, err := wire.DecodeRepair(unhex(t, c.hex))
		require.EqualError(t, err, c.want, c.hex)
	}
}

func TestPiece_partsReassembleThePacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.SliceOfN(rapid.Byte(), 1, 500).Draw(t, "whole")
		size := rapid.IntRange(1, 500).Draw(t, "size")
		var got []byte
		for at := 0; at < len(whole); at += size {
			cut := wire.FragmentHead{Offset: at, Total: len(whole)}
			c, part, err := wire.DecodeFragment(wire.AppendFragment(nil, cut, whole[at:min(at+size, len(whole))]))
			require.NoError(t, err)
			require.Equal(t, cut, c)
			require.Equal(t, len(got), c.Offset)
			got = append(got, part...)
		}
		require.Equal(t, whole, got)
	})
}

func TestDecodePiece_refusesRangesOutsideTheWhole(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "packet: field offset: malformed or missing number"},
		{"00", "packet: field total: malformed or missing number"},
		{"00" + "01", "packet: a piece of 0 bytes at 0 of 1"},
		{"00" + "00" + "aa", "packet: a piece of 1 bytes at 0 of 0"},
		{"00" + "01" + "aabb", "packet: a piece of 2 bytes at 0 of 1"},
		{"02" + "01" + "aa", "packet: a piece of 1 bytes at 2 of 1"},
		{"01" + "01" + "aa", "packet: a piece of 1 bytes at 1 of 1"},
		{"ffffffffffffffffff01" + "01" + "aa", "packet: a piece of 1 bytes at 18446744073709551615 of 1"},
		{"00" + "ffffffffffffffffff01" + "aa", "packet: a piece of 1 bytes at 0 of 18446744073709551615"},
		{"00" + "8080808008" + "aa", fmt.Sprintf("packet: a piece of 1 bytes at 0 of %d", 1<<31)},
	} {
		_, part, err := wire.DecodeFragment(unhex(t, c.hex))
		require.EqualError(t, err, c.want, c.hex)
		require.Nil(t, part)
	}
	c, _, err := wire.DecodeFragment(unhex(t, "feffffff07"+"ffffffff07"+"aa"))
	require.NoError(t, err)
	require.Equal(t, wire.FragmentHead{Offset: math.MaxInt32 - 1, Total: math.MaxInt32}, c)
}
