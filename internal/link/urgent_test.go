package link_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

func TestUrgent_controlConnectionOvertakesBlockedData_LINK19(t *testing.T) {
	srv := bustest.Server(t)
	a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
	control := a.space.Control(b.id, senderOf(a.id))
	loses := func(m bus.Msg) bool { return m.Subject != control }
	b.loses.Store(&loses)
	target := a.Target(b.to("x"))
	for {
		if err := a.Send(target, &wire.Envelope{Kind: wire.Message, Body: make([]byte, 1<<20)}, link.Mark{},
			0); err != nil {
			require.ErrorContains(t, err, "are queued for")
			break
		}
	}
	urgent := func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return append([]string(nil), b.urgent...)
	}
	a.SendUrgent(target.Peer, &wire.Envelope{Kind: wire.Message, Port: "p", Body: make([]byte, 64<<10)}) // too large
	a.SendUrgent(target.Peer, &wire.Envelope{Kind: wire.Message, Port: "p", Body: []byte("now")})
	testkit.Until(t, "it came", func() bool { return len(urgent()) == 1 })
	require.Equal(t, a.id.String()+" p now", urgent()[0])
	require.Empty(t, b.letters())

	b.die(a.id, errors.New("struck"))
	fenced := b.Stats().Fenced
	a.SendUrgent(target.Peer, &wire.Envelope{Kind: wire.Message, Port: "p", Body: []byte("again")})
	testkit.Until(t, "it is fenced", func() bool { return b.Stats().Fenced > fenced })
	require.Len(t, urgent(), 1)
}
