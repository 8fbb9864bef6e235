package casts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/server"
)

// closer is a started part of a test.
type closer interface{ Close(context.Context) error }

// started requires a successful start, and closes the result when the test ends.
func started[C closer](t *testing.T, start func(context.Context, *server.Server, Share) (C, error),
	srv *server.Server, s Share) C {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := start(ctx, srv, s)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	return c
}

// ground is a server in this process, and the shares of n ranks.
func ground(t *testing.T, ranks int) (context.Context, *server.Server, []Share) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	shares, err := Spread(ranks, Processes)
	require.NoError(t, err)
	srv, err := server.Open(ctx, server.Options{Token: "secret"})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return ctx, srv, shares
}

func oursTo(t *testing.T, ranks int) (context.Context, *Ours) {
	ctx, srv, shares := ground(t, ranks)
	for _, s := range shares {
		started(t, StartMembers, srv, s)
	}
	return ctx, started(t, NewOurs, srv, shares[0])
}

func rawTo(t *testing.T, ranks int) (context.Context, *Raw) {
	ctx, srv, shares := ground(t, ranks)
	for _, s := range shares {
		started(t, StartFanout, srv, s)
	}
	return ctx, started(t, NewRaw, srv, shares[0])
}

// The verbs check their results.
func requireAllVerbs(t *testing.T, ctx context.Context, c Caster) {
	t.Helper()
	m := Message(64)
	for _, verb := range []func(context.Context, []byte) error{c.Reduce, c.Gather, c.Post} {
		failed := make(chan error, MaxInFlight)
		var all sync.WaitGroup
		for range MaxInFlight {
			all.Go(func() { failed <- verb(ctx, slices.Clone(m)) })
		}
		all.Wait()
		for range MaxInFlight {
			require.NoError(t, <-failed)
		}
	}
}

func TestOurs_canReduceGatherAndSend(t *testing.T) {
	for _, ranks := range []int{1, 8, 32} {
		ctx, c := oursTo(t, ranks)
		requireAllVerbs(t, ctx, c)
	}
}

func TestRaw_canReduceGatherAndSend(t *testing.T) {
	for _, ranks := range []int{1, 8, 32} {
		ctx, c := rawTo(t, ranks)
		requireAllVerbs(t, ctx, c)
	}
}

func TestCasters_canReduceAndGatherLargeBodies(t *testing.T) {
	ctx, ours := oursTo(t, 8)
	_, raw := rawTo(t, 8)
	for _, c := range []Caster{ours, raw} {
		require.NoError(t, c.Gather(ctx, Message(maxPart)))
		require.NoError(t, c.Gather(ctx, Message(64<<10)))
		require.NoError(t, c.Reduce(ctx, Message(2*maxPart+1)))
	}
}

func TestOurs_gathersFromTwoAndCallsOne(t *testing.T) {
	ctx, c := oursTo(t, 32)
	require.NoError(t, c.GatherTwo(ctx, Message(64)))
	require.NoError(t, c.CallOne(ctx, Message(64)))
}

func TestNaive_receivesAReplyFromEveryRank(t *testing.T) {
	ctx, srv, shares := ground(t, 32)
	for _, s := range shares {
		started(t, StartNaive, srv, s)
	}
	require.NoError(t, started(t, NewRaw, srv, shares[0]).ReduceNaive(ctx, Message(64)))
}

func TestCaster_wrongRepliesAreAnError(t *testing.T) {
	require.EqualError(t, checkSum(40, 8, 64), "the answers of 8 ranks sum up to 40, want 512")
	require.EqualError(t, checkAnswers([][]byte{Message(64)}, 64, every),
		`answer 0 of 1 is "`+string(Message(64))+`", want 64 bytes that begin with rank 0`)
	require.EqualError(t, checkAnswers([][]byte{[]byte("short")}, 64, every),
		`answer 0 of 1 is "short", want 64 bytes that begin with rank 0`)
	require.EqualError(t, place(nil, []byte("short"), 64), "a reply of 5 bytes, want answers of 64")
	require.EqualError(t, place(nil, make([]byte, 64), 64), "an answer of rank 0 of 0")
	require.EqualError(t, add(nil, []byte("short")), "a reply of 5 bytes, want a number of 8")
}

func TestRaw_endsWithItsContext(t *testing.T) {
	ctx, srv, shares := ground(t, 8)
	c := started(t, NewRaw, srv, shares[0])
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(context.Canceled)
	require.EqualError(t, c.Post(ctx, Message(64)), "0 of 8 replies: context canceled")
}

func TestSpread_givesEachRankToOneProcess(t *testing.T) {
	for ranks, want := range map[int]int{1: 1, 2: 2, 8: 8, 64: 8, 4096: 8, 100_000: 8} {
		shares, err := Spread(ranks, Processes)
		require.NoError(t, err)
		require.Len(t, shares, want)
		next := 0
		for _, s := range shares {
			require.Equal(t, []int{next, ranks, want}, []int{s.First, s.Ranks, s.processes()})
			next += s.Each
		}
		require.Equal(t, ranks, next)
	}
	for _, ranks := range []int{-8, 0, 12} {
		_, err := Spread(ranks, Processes)
		require.ErrorContains(t, err, "want at most 8, or a multiple of it")
	}
	shares, err := Spread(128, 64)
	require.NoError(t, err)
	require.Len(t, shares, 64)
}

func TestShare_textRoundTrips(t *testing.T) {
	shares, err := Spread(64, Processes)
	require.NoError(t, err)
	got, err := ParseShare(shares[3].String())
	require.NoError(t, err)
	require.Equal(t, shares[3], got)
	for _, text := range []string{"", "mesh", shares[0].Mesh.String() + " 1 1", "? 1 1 0"} {
		_, err := ParseShare(text)
		require.ErrorContains(t, err, "want a mesh and three numbers", text)
	}
}
