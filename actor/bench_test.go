package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
)

func BenchmarkSend_sameProc(b *testing.B) {
	p := alone(b)
	ref := spawn(b, p)
	b.ReportAllocs()
	for b.Loop() {
		if err := echo.SendWait(b.Context(), ref, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall_sameProc(b *testing.B) {
	p := alone(b)
	ask(b, spawn(b, p))
}

func BenchmarkCall_otherProc(b *testing.B) {
	srv := bustest.Server(b)
	ask(b, spawn(b, start(b, srv, "right")).Via(start(b, srv, "left")))
}

func ask(b *testing.B, ref actor.Ref[*Box]) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := add.Call(b.Context(), ref, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpawnStop(b *testing.B) {
	p := alone(b)
	b.ReportAllocs()
	for b.Loop() {
		ref, err := actor.Spawn(b.Context(), p, box, "box", 0)
		require.NoError(b, err)
		<-p.StopActor(ref.ID().Name, "enough")
	}
}
