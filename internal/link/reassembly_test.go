package link_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
)

// TestReassembly_keepsPacketOrderAndRefusesMessagesSeparately_LINK1: any number of messages is
// handed on together, with a different one at any place.
func TestReassembly_keepsPacketOrderAndRefusesMessagesSeparately_LINK1(t *testing.T) {
	const n = 1000
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	a.refuses = func(l letter) []byte {
		if l.body[len(l.body)-1] == '7' {
			return []byte("no")
		}
		return nil
	}
	data := wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: 1})
	var want []string
	var refused []wire.Refusal
	for i := range n {
		e := say(fmt.Sprint(i))
		e.Actor, e.Port = "x", "in"
		if i%300 == 299 {
			e.TTL = time.Minute
		}
		if i%10 == 7 {
			refused = append(refused, wire.Refusal{Seq: 1, Index: i, Count: 1, Why: []byte("no")})
		} else {
			want = append(want, fmt.Sprint(i))
		}
		data = e.Append(data, i > 0 && i%400 != 0)
	}
	r.publishTo(t, a, data)
	got := a.await(t, len(want))
	require.Equal(t, want, bodies(got))
	for _, l := range got {
		require.Equal(t, l.body == "299" || l.body == "599" || l.body == "899", l.ttl > 0, l.body)
	}
	require.Equal(t, refused, r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody).Refusals)
}
