package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestForeignPort_repliesOnThePlainClientsSubject(t *testing.T) {
	srv := bustest.Server(t)
	p := start(t, srv, "alone")
	ref, client := spawn(t, p), bustest.Open(t, srv)
	got := make(chan bus.Msg, 10)
	_, err := client.Data().Subscribe("my.results", func(m bus.Msg) { got <- m })
	require.NoError(t, err)
	subject := p.Space().Port(ref.ID().Port("feed"), subjects.Anon())
	require.NoError(t, client.Data().Publish(subject, []byte(`"my.results"`)))
	for _, want := range []string{"0", "1", "2", "3", "4"} {
		m := testkit.Next(t, got)
		require.Equal(t, want, string(m.Data))
		require.Equal(t, "application/json", m.Header.Get("Content-Type"))
	}
}

func TestForeignPort_textRoundTrips(t *testing.T) {
	port, err := actor.ForeignPort[int]("_INBOX.a.b")
	require.NoError(t, err)
	text, err := port.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "_INBOX.a.b", string(text))
	require.Equal(t, "_INBOX.a.b", port.String())
	var back actor.PortRef[int]
	require.NoError(t, back.UnmarshalText(text))
	require.Equal(t, port, back)
	require.False(t, back.ID().IsValid())
}

func TestForeignPort_refusesInvalidSubjects(t *testing.T) {
	p := alone(t)
	for _, bad := range []string{"", "$SYS.x", "a.*", "a.>", "a b", ".a", "a.", "a..b"} {
		_, err := actor.ForeignPort[int](bad)
		require.ErrorIs(t, err, actor.ErrInvalid, "%q", bad)
		require.ErrorContains(t, err, "want mesh/rank.gen/actor:port, or a NATS subject")
		if bad != "" { // the zero PortRef
			require.Error(t, new(actor.PortRef[int]).UnmarshalText([]byte(bad)), "%q", bad)
		}
	}
	ours, err := actor.ForeignPort[int](p.Space().PortsOf(p.ID())[:20] + "x")
	require.NoError(t, err, "only a proc checks for castnet's subjects")
	require.ErrorContains(t, ours.Via(p).Send(t.Context(), 1), "want a subject of the client")
	require.ErrorIs(t, ours.Send(t.Context(), 1), actor.ErrInvalid, "nobody to send as")
	odd, err := actor.ForeignPort[chan int]("x")
	require.NoError(t, err)
	require.ErrorIs(t, odd.Via(p).Send(t.Context(), nil), actor.ErrInvalid)
}

func TestRefs_zeroOnesTravelAsWithinAProc(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b)
	for name, from := range map[string]*actor.Proc{"local": b, "remote": a} {
		_, err := relay.Call(t.Context(), ref.Via(from), actor.Ref[*Box]{})
		require.ErrorContains(t, err, "got the zero Ref", name)
		_, err = feed.Call(t.Context(), ref.Via(from), actor.PortRef[int]{})
		require.ErrorContains(t, err, "got the zero value", name)
	}
	type message struct {
		Actor actor.Ref[*Box]
		Port  actor.PortRef[int]
	}
	for _, f := range []wire.Format{wire.CBOR, wire.JSON} {
		raw, err := f.Encode(message{})
		require.NoError(t, err)
		var got message
		require.NoError(t, f.Decode(raw, &got))
		require.Equal(t, message{}, got)
	}
	var got message
	require.NoError(t, wire.JSON.Decode([]byte(`{"Actor":null,"Port":null}`), &got))
	require.Equal(t, message{}, got)
}
