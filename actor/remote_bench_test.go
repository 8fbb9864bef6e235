package actor_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
)

var (
	sink   = actor.NewType[*Sink, actor.None]("sink")
	pour   = actor.NewEndpoint[*Sink, []byte, actor.None]("pour")
	poured = actor.NewEndpoint[*Sink, actor.None, int]("poured")
)

// Sink counts its messages.
type Sink struct{ n int }

func newSink(*actor.Context, actor.None) (*Sink, error) { return &Sink{}, nil }

func (s *Sink) pour(*actor.Context, []byte) (actor.None, error) {
	s.n++
	return actor.None{}, nil
}
func (s *Sink) seen(*actor.Context, actor.None) (int, error) { return s.n, nil }

func BenchmarkRemoteSendWait64B(b *testing.B) {
	srv := bustest.Server(b)
	def := sink.Define(newSink, pour.Handle((*Sink).pour), poured.Handle((*Sink).seen))
	from, to := start(b, srv, "left"), start(b, srv, "right", def)
	ref, err := actor.Spawn(b.Context(), to, sink, "sink", actor.None{})
	require.NoError(b, err)
	ref = actor.RefOf[*Sink](ref.ID()).Via(from)
	body := bytes.Repeat([]byte{1}, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := pour.SendWait(b.Context(), ref, body); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, from.Flush(b.Context()))
	n, err := poured.Call(b.Context(), ref, actor.None{})
	require.NoError(b, err)
	require.Equal(b, b.N, n)
}
