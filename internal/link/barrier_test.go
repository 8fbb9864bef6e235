package link

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// track sends a message, by its first letter, and returns a barrier for it.
func (b *bench) track(to *Target, sender, body string, until Instant) *Barrier {
	b.t.Helper()
	r := NewBarrier()
	e := wire.Envelope{Kind: wire.Message, Sender: sender, Body: []byte(body)}
	require.NoError(b.t, b.core.SendWhole(b.now, to, &e, nil, Mark{Type: body[:1]}, until, r))
	return r
}

func TestBarrier_ofOneMessagePassesWithItsFate(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, InitialWindow: 1})
	other := b.target(b.peer, "b")
	all := []*Barrier{
		b.track(other, "s", "1: alone", 0),
		b.track(b.to, "s", strings.Repeat("2: in parts", 15), 0),
		b.track(b.to, "s", "3: behind that", 0),
		b.track(other, "s", "4: with others", 0),
	}
	var none *Barrier
	require.False(t, none.Reached())
	arrived := ""
	for range 20 {
		left := b.leave()
		for i, r := range all {
			require.False(t, r.Reached() && !strings.Contains(arrived, strconv.Itoa(i+1)+":"),
				"%d is not acknowledged", i+1)
		}
		b.ack(b.peer.out.lastSeq)
		for _, s := range left {
			arrived += strings.Join(s.bodies, "")
		}
	}
	for i, r := range all {
		require.True(t, r.Reached(), i+1)
	}
	late := b.track(other, "s", "5: given up", 0)
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	require.True(t, late.Reached())
}

func TestDeadline_messageWithoutOneEndsWithItsLink_LINK8(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, InitialWindow: 1, DefaultDeadline: time.Second})
	left := b.track(b.to, "s", "left", Never)
	b.leave()
	queued := b.track(b.to, "s", "queued", Never)
	b.track(b.to, "s", "deadline", 0)
	parts := b.track(b.target(b.peer, "b"), "s", strings.Repeat("parts", 40), Never)
	follows := b.track(b.target(b.peer, "b"), "s", "follows", Never)
	b.after(30 * time.Second)
	require.Equal(t, []string{"d never"}, b.fates())
	for _, r := range []*Barrier{left, queued, parts, follows} {
		require.False(t, r.Reached())
	}
	b.ack(1)
	require.True(t, left.Reached())
	for len(b.leave()) > 0 {
		b.ack(b.peer.out.lastSeq)
	}
	b.after(time.Minute)
	require.True(t, queued.Reached() && parts.Reached() && follows.Reached())
	require.Empty(t, b.fates())
	require.Zero(t, b.core.Due(), "no timer is due")

	b.track(b.to, "s", "over", Never)
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	require.Equal(t, []string{"o never"}, b.fates())
}
