package wire_test

import (
	"encoding/hex"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

// controls are control packets in their form on the bus, with their decoded bodies.
var controls = []struct {
	name string
	kind wire.PacketKind
	body any
	hex  string
}{
	{"the least state", wire.LinkState, &wire.LinkStateBody{}, "00020500000000" + "a1" + "01" + "a3" + "0100" +
		"0200" + "0300"},
	{"a state", wire.LinkState, &wire.LinkStateBody{
		Progress: wire.AckState{Acked: 5, ReceivedBytes: 300, Window: 1 << 20}, Missing: []uint64{5, 7},
		FirstRefusal: 2, Refusals: []wire.Refusal{{Seq: 5, Index: 1, Count: 2, Why: []byte{0xa0}}},
	}, "00020500000000" + "a4" + "01" + "a3" + "0105" + "0219012c" + "031a00100000" + "02820507" +
		"0402" + "05" + "81" + "a4" + "0105" + "0201" + "0302" + "0441a0"},
	{"a confirm", wire.ConfirmRefusals, &wire.ConfirmBody{Next: 300}, "00020600000000" + "a1" + "0119012c"},
	{"a break", wire.ReceiverReset, &wire.ResetBody{Seq: 7, Text: "no"},
		"00020700000000" + "a2" + "0107" + "02626e6f"},
	{"a gone", wire.SenderReset, &wire.ResetBody{Seq: 7}, "00020800000000" + "a2" + "0107" + "0260"},
	{"a gone of who closes", wire.SenderReset, &wire.ResetBody{Seq: 7, Text: "x", Closed: true},
		"00020800000000" + "a3" + "0107" + "026178" + "03f5"},
	{"a query", wire.FateQuery, &wire.FateQueryBody{Seq: 7, Indexes: []int{0, 300}},
		"00020900000000" + "a2" + "0107" + "02" + "82" + "00" + "19012c"},
	{"a verdict", wire.FateReply, &wire.FateQueryBody{Seq: 7}, "00020a00000000" + "a2" + "0107" + "02" + "f6"},
	{"a cancel", wire.Cancel, &wire.CancelBody{Replies: []string{"m/0.0/a:_1"}}, "00020b00000000" + "a1" + "01" +
		"81" + "6a6d2f302e302f613a5f31"},
	{"a resume", wire.Resume, nil, "00020c00000000" + "f6"},
}

const controlHead = 7 // the size of the head of each

func TestControl_matchesGoldenBytes_WIRE4(t *testing.T) {
	for _, g := range controls {
		t.Run(g.name, func(t *testing.T) {
			b, err := wire.AppendControl([]byte{9}, g.kind, g.body)
			require.NoError(t, err)
			require.Equal(t, "09"+g.hex, hex.EncodeToString(b))
			kind, body, err := wire.DecodeControl(b[1:])
			require.NoError(t, err)
			require.Equal(t, g.kind, kind)
			require.Equal(t, g.body, body)
		})
	}
}

func TestControl_roundTrips(t *testing.T) {
	number, index := rapid.Uint64(), rapid.Int()
	refusal := rapid.Custom(func(t *rapid.T) wire.Refusal {
		return wire.Refusal{Seq: number.Draw(t, "n"), Index: index.Draw(t, "index"), Count: index.Draw(t, "count"),
			Why: drawBytes(t, "why")}
	})
	rapid.Check(t, func(t *rapid.T) {
		state := &wire.LinkStateBody{
			Progress: wire.AckState{
				Acked: number.Draw(t, "acked"), ReceivedBytes: number.Draw(t, "taken"), Window: number.Draw(t, "window"),
			},
			FirstRefusal: number.Draw(t, "first"),
		}
		if rapid.Bool().Draw(t, "misses") {
			state.Missing = rapid.SliceOfN(number, 2, 8).Draw(t, "missing")
		}
		if rapid.Bool().Draw(t, "refuses") {
			state.Refusals = rapid.SliceOfN(refusal, 1, 5).Draw(t, "refused")
		}
		over := &wire.ResetBody{Seq: number.Draw(t, "n"), Text: rapid.String().Draw(t, "text"),
			Closed: rapid.Bool().Draw(t, "closed")}
		query := &wire.FateQueryBody{Seq: number.Draw(t, "n"), Indexes: rapid.SliceOf(index).Draw(t, "indexes")}
		for _, c := range []struct {
			kind wire.PacketKind
			body any
		}{
			{wire.LinkState, state}, {wire.ConfirmRefusals, &wire.ConfirmBody{Next: number.Draw(t, "next")}},
			{wire.ReceiverReset, over}, {wire.SenderReset, over}, {wire.FateQuery, query}, {wire.FateReply, query},
			{wire.Cancel, &wire.CancelBody{Replies: rapid.SliceOf(rapid.String()).Draw(t, "replies")}},
		} {
			b, err := wire.AppendControl(nil, c.kind, c.body)
			require.NoError(t, err)
			var unknown atomic.Uint64
			kind, body, err := wire.DecodeControlCounting(b, &unknown)
			require.NoError(t, err)
			require.Equal(t, c.kind, kind)
			require.Equal(t, c.body, body)
			require.Zero(t, unknown.Load())
		}
	})
}

func TestDecodeControl_namesWhatIsMalformed(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "packet: want first byte 0x00, got 0 bytes without it"},
		{"00020100000000", "packet: kind 1 is not for the control connection"},
		{"00020200000000", "packet: kind 2 is not for the control connection"},
		{"00020300000000", "packet: kind 3 is not for the control connection"},
		{"00020400000000", "packet: kind 4 is not for the control connection"},
		{"00020d00000000", "packet: kind 13 is not for the control connection"},
		{"00020e00000000", "packet: want one message or one answer, and nothing else"},
		{"00020e00000000" + "04000000", "packet: field body: malformed or missing number"},
		{"00020e00000000" + "0400000000", "packet: want one message or one answer, and nothing else"},
		{"00020e00000000" + "0100000000" + "0900", "packet: want one message or one answer, and nothing else"},
		{"00020f00000000", "packet: unknown kind 15"},
		{"00020600000000", "decode *wire.ConfirmBody: EOF"},
		{"00020600000000" + "a101", "decode *wire.ConfirmBody: unexpected EOF"},
		{"00020600000000" + "a1012000",
			"decode *wire.ConfirmBody: 1 bytes of extraneous data starting at index 3"},
		{"00020600000000" + "a10120", "decode *wire.ConfirmBody: cannot unmarshal negative integer into " +
			"field wire.ConfirmBody.1 of type uint64"},
		{"00020700000000" + "a201070201",
			"decode *wire.ResetBody: cannot unmarshal positive integer into field wire.ResetBody.2 " +
				"of type string"},
		{"00020b00000000" + "80", "decode *wire.CancelBody: cannot unmarshal array into wire.CancelBody (cannot decode array to struct)"},
	} {
		_, body, err := wire.DecodeControl(unhex(t, c.hex))
		require.EqualError(t, err, c.want, c.hex)
		require.Nil(t, body)
	}
}

func TestDecodeControl_refusesEveryTruncation(t *testing.T) {
	for _, g := range controls {
		whole := unhex(t, g.hex)
		for n := range whole {
			if g.kind == wire.Resume && n >= controlHead {
				continue // nothing of its body is read
			}
			_, _, err := wire.DecodeControl(whole[:n])
			require.Error(t, err, "%s, %d of %d bytes", g.name, n, len(whole))
		}
	}
}

func TestAppendControl_failedEncodingLeavesTheBuffer(t *testing.T) {
	b, err := wire.AppendControl([]byte{9}, wire.LinkState, func() {})
	require.ErrorContains(t, err, "encode func()")
	require.Equal(t, []byte{9}, b)
}

// TestControl_hasNarrowLimits_WIRE7 goes to each limit and one beyond. Only skipped fields may be
// nested, because no body of castnet's own is.
func TestControl_hasNarrowLimits_WIRE7(t *testing.T) {
	array := func(n int, of string) []byte { return join(arrayOf(n), []byte(strings.Repeat(of, n))) }
	unknown := func(v []byte) []byte { return join(unhex(t, "a2"+"0107"+"1863"), v) }
	manyKeys := func(n int) []byte {
		b := mapOf(n)
		for i := range n {
			b = append(b, 0x19, byte(i>>8|0x40), byte(i), 0) // from 16,384 on
		}
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
		v    any
		want string // "" is none
	}{
		{"65,536 elements", join(unhex(t, "a2"+"0107"+"02"), array(65536, "\x01")), &wire.FateQueryBody{}, ""},
		{"65,537 elements", join(unhex(t, "a2"+"0107"+"02"), array(65537, "\x01")), &wire.FateQueryBody{},
			"exceeded max number of elements 65536 for array"},
		{"4,096 pairs", manyKeys(4096), &wire.ConfirmBody{}, ""},
		{"4,097 pairs", manyKeys(4097), &wire.ConfirmBody{},
			"exceeded max number of key-value pairs 4096 for map"},
		{"16 levels", unknown(unhex(t, strings.Repeat("81", 15)+"00")), &wire.ConfirmBody{}, ""},
		{"17 levels", unknown(unhex(t, strings.Repeat("81", 16)+"00")), &wire.ConfirmBody{},
			"exceeded max nested level 16"},
		{"keys twice and wrong text, in what is skipped", unknown(unhex(t, "a2"+"61ff00"+"61ff00")),
			&wire.ConfirmBody{}, ""},
		{"a tag", unknown(unhex(t, "c100")), &wire.ConfirmBody{}, "tag isn't allowed"},
		{"a big integer", unknown(unhex(t, "c24101")), &wire.ConfirmBody{}, "tag isn't allowed"},
		{"an indefinite array", unknown(unhex(t, "9f00ff")), &wire.ConfirmBody{},
			"indefinite-length array isn't allowed"},
		{"an indefinite map", unhex(t, "bf0107ff"), &wire.ConfirmBody{},
			"indefinite-length map isn't allowed"},
		{"an indefinite text", unhex(t, "a2"+"0107"+"02"+"7f6161ff"), &wire.ResetBody{},
			"indefinite-length text isn't allowed"},
		{"a key twice", unhex(t, "a2"+"0107"+"0108"), &wire.ConfirmBody{},
			"found duplicate map key 1 at map element index 1"},
		{"an unknown key twice", unhex(t, "a2"+"186300"+"186300"), &wire.ConfirmBody{},
			"found duplicate map key 99 at map element index 1"},
		{"a text that is not UTF-8", unhex(t, "a2"+"0107"+"02"+"61ff"), &wire.ResetBody{},
			"invalid UTF-8 string"},
	} {
		for _, counter := range []*atomic.Uint64{nil, new(atomic.Uint64)} {
			err := wire.UnmarshalCounting(c.data, c.v, counter)
			if c.want == "" {
				require.NoError(t, err, c.name)
			} else {
				require.ErrorContains(t, err, c.want, c.name)
				require.True(t, counter == nil || counter.Load() == 0, "%s: refused packets are not counted", c.name)
			}
		}
	}
	type query wire.FateQueryBody
	require.NoError(t, wire.Unmarshal(join(unhex(t, "a2"+"0107"+"02"), array(65537, "\x01")), &query{}),
		"a user's body may have more")
}

// newer is the body of a later build, with unknown fields before and after the known ones.
func newer(t testing.TB, body []byte) []byte {
	require.Less(t, body[0], byte(0xa0+20))
	return join([]byte{body[0] + 2}, unhex(t, "00"+"82a10102f6"), body[1:], unhex(t, "1863"+"6161"))
}

func TestControl_bodyWithUnknownFieldsCountsOnce_WIRE3(t *testing.T) {
	for _, g := range controls[:len(controls)-1] {
		whole := unhex(t, g.hex)
		data := join(whole[:controlHead], newer(t, whole[controlHead:]))
		var unknown atomic.Uint64
		for want := range uint64(3) {
			require.Equal(t, want, unknown.Load(), g.name)
			kind, body, err := wire.DecodeControlCounting(data, &unknown)
			require.NoError(t, err, g.name)
			require.Equal(t, g.kind, kind, g.name)
			require.Equal(t, g.body, body, g.name)
		}
		_, body, err := wire.DecodeControl(data)
		require.NoError(t, err, g.name)
		require.Equal(t, g.body, body, g.name)
	}
}

func TestControl_countsNestedUnknownFields_WIRE3(t *testing.T) {
	// A refusal with an unknown field stands between two others, and all are read.
	refusal := "a4" + "0105" + "0201" + "0302" + "0441a0"
	data := unhex(t, "a3"+"01"+"a1"+"0103"+"04"+"09"+"05"+"83"+refusal+"a5"+"0a80"+refusal[2:]+refusal)
	var s wire.LinkStateBody
	var unknown atomic.Uint64
	require.NoError(t, wire.UnmarshalCounting(data, &s, &unknown))
	require.EqualValues(t, 1, unknown.Load())
	r := wire.Refusal{Seq: 5, Index: 1, Count: 2, Why: []byte{0xa0}}
	require.Equal(t, wire.LinkStateBody{Progress: wire.AckState{Acked: 3}, FirstRefusal: 9,
		Refusals: []wire.Refusal{r, r, r}}, s)
}

func TestControl_acceptsTheLargestNumbers(t *testing.T) {
	b, err := wire.AppendControl(nil, wire.ConfirmRefusals, wire.ConfirmBody{Next: math.MaxUint64})
	require.NoError(t, err)
	_, body, err := wire.DecodeControl(b)
	require.NoError(t, err)
	require.Equal(t, &wire.ConfirmBody{Next: math.MaxUint64}, body)
}

func TestUrgent_roundTrips(t *testing.T) {
	for _, c := range []struct {
		e   wire.Envelope
		hex string
	}{
		{wire.Envelope{Kind: wire.Message, Actor: "a", Port: "p", Sender: "s", TTL: time.Second, Reply: "r",
			Body: []byte{5}}, "31" + "0161" + "0170" + "0173" + "e807" + "0172" + "0105"},
		{wire.Envelope{Kind: wire.Value, Actor: "a", Port: "p", Sender: "s", Body: []byte{5}},
			"02" + "0161" + "0170" + "0173" + "0105"},
		{wire.Envelope{Kind: wire.Failure, Actor: "a", Port: "p", Sender: "s", Body: []byte{5}},
			"03" + "0161" + "0170" + "0173" + "0105"},
	} {
		b := wire.AppendUrgent([]byte{9}, &c.e)
		require.Equal(t, "09"+"00020e00000000"+c.hex, hex.EncodeToString(b))
		kind, body, err := wire.DecodeControl(b[1:])
		require.NoError(t, err)
		require.Equal(t, wire.Urgent, kind)
		require.Equal(t, &c.e, body)
		for n := range b[1:] {
			_, _, err := wire.DecodeControl(b[1 : n+1])
			require.Error(t, err, "%d of %d bytes", n, len(b)-1)
		}
	}
}
