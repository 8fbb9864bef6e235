package actor_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestSpawn_constructorErrorLeavesNoActor(t *testing.T) {
	p := alone(t)
	for start, want := range map[int64]string{-1: "actor type box: cannot start at -1",
		-2: "the constructor of actor type box panicked"} {
		for range 20 { // the name is free again at once
			_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "b", Params: start})
			require.ErrorContains(t, err, want)
		}
	}
	es := record(p)
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "b", Raw: []byte{0x07}})
	require.NoError(t, err)
	n, err := add.Call(t.Context(), actor.RefOf[*Box](p.ID().Actor("b")).Via(p), 1)
	require.NoError(t, err)
	require.EqualValues(t, 8, n, "parameters came as CBOR")
	require.Equal(t, []string{"running"}, es.of("b"))
}

func TestSpawn_reportsInvalidArguments(t *testing.T) {
	p := alone(t)
	for _, c := range []struct {
		s    actor.SpawnSpec
		want string
	}{
		{actor.SpawnSpec{Type: "crate", Name: "b"}, `actor type "crate" is not known to this proc; it knows box`},
		{actor.SpawnSpec{Type: "box", Name: "no.dots"}, "no.dots"},
		{actor.SpawnSpec{Type: "box", Name: "b", Params: "text"}, "actor type box takes int64, got string"},
		{actor.SpawnSpec{Type: "box", Name: "b"}, "actor type box takes int64, got <nil>"},
		{actor.SpawnSpec{Type: "box", Name: "b", Raw: []byte{0x61}}, "actor type box: parameters:"},
		{actor.SpawnSpec{Type: "box", Name: "client", Params: int64(1)}, "want another"},
	} {
		_, err := p.Spawn(t.Context(), c.s)
		require.ErrorContains(t, err, c.want)
	}
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "b", Params: int64(0)})
	require.NoError(t, err)
	_, err = p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "b", Params: int64(0)})
	require.ErrorContains(t, err, "an actor with this name exists already")
	require.NoError(t, p.Close(testkit.Soon(t)))
	_, err = p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "c", Params: int64(0)})
	require.ErrorIs(t, err, actor.ErrStopped)
}

func TestSpawn_endsWithItsContext(t *testing.T) {
	slow := actor.NewType[*Box, chan struct{}]("slow")
	def := slow.Define(func(ctx *actor.Context, entered chan struct{}) (*Box, error) {
		close(entered)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	p := alone(t, def)
	es, entered := record(p), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	id, err := p.Spawn(ctx, actor.SpawnSpec{Type: "slow", Name: "b", Params: entered})
	require.ErrorIs(t, err, context.Canceled)
	testkit.Until(t, "failed", func() bool { return len(es.of(id.Name)) == 1 })
	require.Equal(t, []string{"failed"}, es.of("b"))
}

func TestSpawn_constructorRunsBeforeAnyMessage(t *testing.T) {
	p := alone(t)
	var wg sync.WaitGroup
	for i := range 200 {
		name := "b" + strconv.Itoa(i)
		ref := actor.RefOf[*Box](p.ID().Actor(name)).Via(p)
		wg.Go(func() {
			for {
				n, err := add.Call(t.Context(), ref, 1)
				if err == nil {
					require.EqualValues(t, 101, n)
					return
				}
				require.ErrorIs(t, err, actor.ErrNoActor)
				runtime.Gosched()
			}
		})
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: name, Params: int64(100)})
		require.NoError(t, err)
	}
	wg.Wait()
}
