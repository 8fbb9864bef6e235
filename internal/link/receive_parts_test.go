package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// A process that may cast to a mesh must not send other messages in parts of a cast.
func TestReceiveCast_takesCastsInPartsAndNothingElse(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	subject := a.space.Cast(mesh, "x", "in", "_", senderOf(r.id))
	s, err := a.space.Parse(subject)
	require.NoError(t, err)
	seq := uint64(0)
	receive := func(kind wire.Kind, more ...wire.Envelope) {
		inner := (&wire.Envelope{Kind: kind, Actor: "x", Port: "in", Sender: "s", Body: []byte("hello")}).
			Append(nil, false)
		seq++
		part := wire.Envelope{Kind: wire.Chunk, Sender: "s", Body: inner,
			Ext: append(wire.ChunkHead{ID: seq, Total: len(inner)}.Append(nil), "header"...)}
		data := packet(wire.Head{Seq: seq}, append([]wire.Envelope{part}, more...)...)
		a.ReceiveCast(bus.Msg{Subject: subject, Data: data}, s,
			func(_ uint64, e *wire.Envelope) (link.CastHead, error) {
				require.Equal(t, "header", string(e.Ext))
				return link.CastHead{PrevSeq: seq - 1}, nil
			})
	}
	receive(wire.Cast)
	testkit.Until(t, "it is there", func() bool { return len(a.letters()) == 1 })
	receive(wire.Message)
	require.Len(t, a.letters(), 1)
	require.Empty(t, a.complaints(), "it is refused in its turn")
	receive(wire.Cast, texts("follows")...)
	require.Len(t, a.letters(), 1)
	require.Len(t, a.complaints(), 1)
}
