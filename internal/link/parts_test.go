package link

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestParts_areTheEncodedMessage_LINK9(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := wire.Envelope{Kind: wire.Message, Sender: "s", Reply: rapid.StringN(0, 40, -1).Draw(t, "reply"),
			Bytes: rapid.Bool().Draw(t, "bytes"), Body: rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(t, "body")}
		to := &Target{Actor: strings.Repeat("a", rapid.IntRange(1, 40).Draw(t, "actor")), Port: "p"}
		w := encodeParts(to, &e, rapid.IntRange(1, 150).Draw(t, "size"))
		if rapid.Bool().Draw(t, "shared") {
			w.cast = &sharedCast{}
		}
		want := e.Append(nil, false)
		require.Equal(t, len(want), w.total)
		require.Equal(t, e.BodyLen(), w.body)

		heads := bytes.Repeat([]byte{'h'}, rapid.IntRange(0, w.room).Draw(t, "heads"))
		var packets, got [][]byte
		for at := 0; at < w.total; {
			n := rapid.IntRange(1, w.toEnd(at)).Draw(t, "n")
			packets = append(packets, w.packet(bytes.Clone(heads), at, n))
			at += n
		}
		for _, packet := range packets { // as each is kept until its acknowledgement
			require.Equal(t, heads, packet[:len(heads)])
			got = append(got, packet[len(heads):])
		}
		require.Equal(t, want, join(got))
	})
}

func TestParts_leaveFromWhereTheyLie_LINK9(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100})
	e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 350)}
	whole := encodeParts(b.to, &e, 100)
	require.NoError(t, b.core.SendWhole(b.now, b.to, &e, whole, Mark{Type: "L"}, 0, nil))
	at := 0
	for pub, ok := b.core.Next(b.now); ok; pub, ok = b.core.Next(b.now) {
		require.Same(t, &whole.bytes(at, 1)[0], &pub.Data[len(pub.Data)-whole.toEnd(at)])
		at += whole.toEnd(at)
	}
	require.Equal(t, whole.total, at)
}

func TestParts_smallOnesHaveAsManyBytesInFlight_LINK9(t *testing.T) {
	for limit, want := range map[int]int{1 << 20: 2, headMargin + 50: 4, headMargin + 30: 7} {
		b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 2})
		b.core.SetLimit(limit)
		b.postTo("a", "s", strings.Repeat("L", 1000))
		require.Len(t, b.leave(), want, "with a limit of %d", limit)
	}
}
