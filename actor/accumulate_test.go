package actor_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

var errOdd = errors.New("odd")

// evens adds even numbers, refuses odd ones and panics at 0.
func evens() actor.Accumulator[int, int] {
	return actor.NewAccumulator("evens", 0, func(sum, n int) (int, error) {
		switch {
		case n == 0:
			panic("a zero")
		case n%2 != 0:
			return -1, errOdd
		}
		return sum + n, nil
	})
}

// accumulator opens a port and requires success.
func accumulator[S, U any](t require.TestingT, at actor.PortOwner, acc actor.Accumulator[S, U],
	limit ...actor.Limit) *actor.AccumulatorPort[S, U] {
	port, err := actor.OpenAccumulator(at, acc, limit...)
	require.NoError(t, err)
	return port
}

func TestAccumulator_returnsLatestStateForManyUpdates_PORT3(t *testing.T) {
	a, b := two(t)
	port := accumulator(t, a, actor.Sum[int]())
	require.Zero(t, port.Latest())
	for n := 1; n <= 5000; n++ { // more than any queue holds
		require.NoError(t, port.Ref().Send(t.Context(), n))
	}
	sum, err := port.Recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5000*5001/2, sum)
	require.Equal(t, sum, port.Latest())
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 1))
	next, err := port.Recv(testkit.Soon(t))
	require.NoError(t, err)
	require.Equal(t, sum+1, next, "the next receive is of the next update")
}

func TestAccumulator_blocksReceiveUntilAnUpdate_PORT3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		port := accumulator(t, p, actor.Max[int]())
		requireNone := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := port.Recv(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		requireNone()
		require.NoError(t, port.Ref().Send(t.Context(), 3))
		top, err := port.Recv(t.Context())
		require.NoError(t, err)
		require.Equal(t, actor.Maybe[int]{Value: 3, OK: true}, top)
		requireNone()
	})
}

func TestAccumulator_returnsARefusedUpdateToItsSender_PORT3(t *testing.T) {
	a, b := two(t)
	port := accumulator(t, a, evens())
	require.NoError(t, port.Ref().Send(t.Context(), 2))
	err := port.Ref().Send(t.Context(), 1)
	require.ErrorIs(t, err, actor.ErrBadMessage)
	require.ErrorIs(t, err, errOdd, "in this process its cause is kept")
	require.True(t, asError(t, err).Undeliverable())
	require.ErrorContains(t, port.Ref().Send(t.Context(), 0), "accumulator evens panicked: a zero")
	require.ErrorIs(t, portAt[string](t, port.Ref().ID()).Via(a).Send(t.Context(), "x"), actor.ErrBadMessage)
	for n := range 2 {
		require.NoError(t, port.Ref().Via(b).Send(t.Context(), n))
	}
	testkit.Until(t, "they came back", func() bool { return b.Stats().Bounced == 2 })
	require.Equal(t, 2, port.Latest())
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 4))
	testkit.Until(t, "it is folded", func() bool { return port.Latest() == 6 })
}

func TestAccumulator_foldsEachUpdateOnce_PORT3(t *testing.T) {
	const senders, each = 8, 500
	p := alone(t)
	port := accumulator(t, p, actor.Sum[int]())
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				require.NoError(t, port.Ref().Send(t.Context(), 1))
			}
		})
	}
	for last := 0; last < senders*each; {
		sum, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Greater(t, sum, last, "each receive is newer than the one before")
		last = sum
	}
	wg.Wait()
	require.Equal(t, senders*each, port.Latest())
}

func TestAccumulator_yieldsOneStateAfterNUpdatesAndCloses_PORT3(t *testing.T) {
	p := alone(t)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "n")
		port := accumulator(rt, p, evens(), actor.Exactly(n))
		sum := 0
		for taken := 0; taken < n; {
			u := rapid.IntRange(0, 9).Draw(rt, "update")
			err := port.Ref().Send(t.Context(), u)
			if u == 0 || u%2 != 0 {
				require.ErrorIs(rt, err, actor.ErrBadMessage, "what is refused does not count")
				continue
			}
			require.NoError(rt, err)
			sum += u
			if taken++; taken < n {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := port.Recv(ctx)
				require.ErrorIs(rt, err, context.Canceled, "there is no state before the last update")
				require.Equal(rt, sum, port.Latest())
			}
		}
		require.ErrorIs(rt, port.Ref().Send(t.Context(), 2), actor.ErrPortGone)
		got, err := port.Recv(t.Context())
		require.NoError(rt, err)
		require.Equal(rt, sum, got)
		_, err = port.Recv(t.Context())
		require.ErrorIs(rt, err, actor.ErrPortGone)
	})
	open, _ := p.Waiting()
	require.Zero(t, open)
}

func TestAccumulator_acceptsExactlyNOfManySenders_PORT3(t *testing.T) {
	p := alone(t)
	for range 50 {
		port := accumulator(t, p, actor.Count(), actor.Exactly(5))
		results := make(chan error, 8)
		for range cap(results) {
			go func() { results <- port.Ref().Send(t.Context(), actor.None{}) }()
		}
		refused := 0
		for range cap(results) {
			if err := testkit.Next(t, results); err != nil {
				require.ErrorIs(t, err, actor.ErrPortGone)
				refused++
			}
		}
		require.Equal(t, 3, refused)
		n, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
	}
}

func TestAccumulator_closesWithItsActorOrExplicitly(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	var ports [2]*actor.AccumulatorPort[int, int]
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		for i := range ports {
			ports[i] = accumulator(t, ctx, actor.Sum[int]())
		}
		return 0, nil
	})
	require.NoError(t, err)
	for _, port := range ports {
		require.NoError(t, port.Ref().Send(t.Context(), 2))
	}
	ports[0].Close()
	ports[0].Close()
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	for _, port := range ports {
		require.ErrorIs(t, port.Ref().Send(t.Context(), 1), actor.ErrPortGone)
		n, err := port.Recv(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n, "earlier messages are received")
		_, err = port.Recv(t.Context())
		require.ErrorIs(t, err, actor.ErrStopped)
		require.Equal(t, 2, port.Latest())
	}
}

func TestOpenAccumulator_reportsInvalidArguments(t *testing.T) {
	p := alone(t)
	fold := func(a, b int) (int, error) { return a + b, nil }
	for want, open := range map[string]func() error{
		`accumulator "a b"`:        opening(p, actor.NewAccumulator("a b", 0, fold)),
		"want a function, got nil": opening(p, actor.NewAccumulator[int, int]("sum", 0, nil)),
		"accumulator sum: reducer": opening(p, actor.Sum[int]().ReducedBy(actor.NewReducer("", fold))),
		"accumulator sum: reducer x: want a f": opening(p,
			actor.Sum[int]().ReducedBy(actor.NewReducer[int]("x", nil))),
		`accumulator ""`:                opening(p, actor.Accumulator[int, int]{}),
		"want 1 update or more, got 0":  opening(p, actor.Sum[int](), actor.Exactly(0)),
		"want 1 update or more, got -3": opening(p, actor.Sum[int](), actor.Exactly(-3)),
		"one Limit at most, got 2":      opening(p, actor.Sum[int](), actor.Exactly(1), actor.Exactly(2)),
		"1 source or more, got 0":       opening(p, actor.WatermarkOf[int, int](0)),
	} {
		err := open()
		require.ErrorIs(t, err, actor.ErrInvalid)
		require.True(t, strings.HasPrefix(err.Error(), "open an accumulating port: "), err)
		require.ErrorContains(t, err, want)
	}
	open, _ := p.Waiting()
	require.Zero(t, open)
}

// opening tries to open a port.
func opening[S, U any](p *actor.Proc, acc actor.Accumulator[S, U], limit ...actor.Limit) func() error {
	return func() error {
		_, err := actor.OpenAccumulator(p, acc, limit...)
		return err
	}
}

func TestAccumulator_stringNamesItsParts(t *testing.T) {
	acc := actor.Max[string]()
	require.NoError(t, acc.Err())
	require.Equal(t, "max", acc.Name())
	require.Equal(t, actor.Maybe[string]{}, acc.Initial())
	require.NoError(t, acc.Reducer().Err())
	require.NoError(t, actor.Count().Err())
	require.Error(t, actor.Count().Reducer().Err(), "it has none")
}

// relayFor opens a relay and requires success.
func relayFor[U any](t require.TestingT, at actor.PortOwner, to actor.PortRef[U], by actor.Reducer[U],
	o actor.RelayOptions) *actor.Relay[U] {
	r, err := actor.OpenRelay(at, to, by, o)
	require.NoError(t, err)
	return r
}

// Two relays run on one proc, and one relay of both on the other: no update is lost on the way up.
func TestRelay_treeLosesNoUpdate_PORT5(t *testing.T) {
	const senders, each = 4, 250
	root, leaf := two(t)
	sum := actor.Sum[int]()
	total := accumulator(t, root, sum)
	top := relayFor(t, root, total.Ref(), sum.Reducer(), actor.RelayOptions{})
	relays := []*actor.Relay[int]{
		relayFor(t, leaf, top.Ref(), sum.Reducer(), actor.RelayOptions{}),
		relayFor(t, leaf, top.Ref(), sum.Reducer(), actor.RelayOptions{}),
	}
	var wg sync.WaitGroup
	for n := range 2 * senders {
		wg.Go(func() {
			for range each {
				require.NoError(t, relays[n%2].Ref().Send(t.Context(), 1))
			}
		})
	}
	wg.Wait()
	for _, r := range relays {
		require.NoError(t, r.Close())
	}
	for got := 0; got < 2*senders*each; {
		var err error
		got, err = total.Recv(testkit.Soon(t))
		require.NoError(t, err)
	}
	require.NoError(t, top.Close())
	require.Equal(t, 2*senders*each, total.Latest())
}

func TestRelay_limitsOnEachHopYieldOneTotal_PORT3(t *testing.T) {
	root, leaf := two(t)
	sum := actor.Sum[int]()
	total := accumulator(t, root, sum, actor.Exactly(2))
	for hop := range 2 {
		r := relayFor(t, leaf, total.Ref(), sum.Reducer(), actor.RelayOptions{Limit: actor.Exactly(3)})
		for n := range 3 {
			require.NoError(t, r.Ref().Send(t.Context(), 10*hop+n))
		}
		require.ErrorIs(t, r.Ref().Send(t.Context(), 1), actor.ErrPortGone)
		open, _ := leaf.Waiting()
		require.Zero(t, open)
		require.NoError(t, r.Close())
	}
	got, err := total.Recv(testkit.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 0+1+2+10+11+12, got)
}

func TestRelay_closeBeforeTheLimitIsAnError_PORT3(t *testing.T) {
	p := alone(t)
	total := accumulator(t, p, actor.Sum[int]())
	r := relayFor(t, p, total.Ref(), actor.Sum[int]().Reducer(), actor.RelayOptions{Limit: actor.Exactly(3)})
	require.NoError(t, r.Ref().Send(t.Context(), 1))
	require.NoError(t, r.Ref().Send(t.Context(), 1))
	err := r.Close()
	require.ErrorIs(t, err, actor.ErrStopped)
	require.ErrorContains(t, err, "closed after 2 of 3 updates")
	require.Zero(t, total.Latest())
}

func TestRelay_sendsItsBufferWhenItsActorEnds_PORT5(t *testing.T) {
	p := alone(t)
	ref, came := spawn(t, p), make(chan actor.Incoming, 1)
	to := portAt[int](t, actor.OpenRaw(p, "sink", "in", func(in actor.Incoming) { came <- in }).ID())
	var relay actor.PortRef[int]
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		o := actor.RelayOptions{MinDelay: time.Hour, MaxDelay: time.Hour}
		relay = relayFor(t, ctx, to, actor.Sum[int]().Reducer(), o).Ref()
		return 0, nil
	})
	require.NoError(t, err)
	require.NoError(t, relay.Send(t.Context(), 1))
	require.NoError(t, relay.Send(t.Context(), 2))
	require.Empty(t, came)
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	in := testkit.Next(t, came)
	require.Equal(t, 3, in.Value)
	require.Equal(t, ref.ID(), in.From)
	require.ErrorIs(t, relay.Send(t.Context(), 3), actor.ErrPortGone)
}

func TestRelay_withoutAReducerForwardsEachUpdate_PORT5(t *testing.T) {
	p := alone(t)
	to := actor.OpenPort[int](p)
	r := relayFor(t, p, to.Ref(), actor.Reducer[int]{}, actor.RelayOptions{})
	for n := range 3 {
		require.NoError(t, r.Ref().Send(t.Context(), n))
		got, err := to.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
	to.Close()
	require.ErrorIs(t, r.Ref().Send(t.Context(), 3), actor.ErrPortGone)
	require.NoError(t, r.Close())
}

func TestRelay_reducerPanicFailsTheUpdate_PORT5(t *testing.T) {
	p := alone(t)
	crash := actor.NewReducer("crash", func(int, int) (int, error) { panic("crash test") })
	r := relayFor(t, p, actor.OpenPort[int](p).Ref(), crash,
		actor.RelayOptions{MaxUpdates: 2, MinDelay: time.Hour, MaxDelay: time.Hour})
	require.NoError(t, r.Ref().Send(t.Context(), 1))
	require.ErrorContains(t, r.Ref().Send(t.Context(), 2), "reducer crash panicked: crash test")
	require.NoError(t, r.Close())
}

func TestRelay_hasNoGoroutineWhenIdle(t *testing.T) {
	p := alone(t)
	total := accumulator(t, p, actor.Count())
	before := runtime.NumGoroutine()
	for range 200 {
		r := relayFor(t, p, total.Ref(), actor.Barrier().Reducer(), actor.RelayOptions{})
		require.NoError(t, r.Ref().Send(t.Context(), actor.None{}))
	}
	testkit.Until(t, "all have rung", func() bool { return total.Latest() == 200 })
	testkit.Until(t, "rest", func() bool { return runtime.NumGoroutine() <= before })
}

func TestOpenRelay_reportsInvalidArguments(t *testing.T) {
	p := alone(t)
	port, closed, sum := actor.OpenPort[int](p), actor.OpenPort[int](p), actor.Sum[int]().Reducer()
	closed.Close()
	// a relay for it could become a relay for itself
	tomorrows := portAt[int](t, p.ID().Actor("client").Port("_0zzz"))
	for name, c := range map[string]struct {
		to   actor.PortRef[int]
		by   actor.Reducer[int]
		o    actor.RelayOptions
		want error
		text string
	}{
		"no port": {actor.PortRef[int]{}, sum, actor.RelayOptions{}, actor.ErrInvalid,
			"the zero PortRef"},
		"a closed port":      {closed.Ref(), sum, actor.RelayOptions{}, actor.ErrPortGone, "closed"},
		"a port of tomorrow": {tomorrows, sum, actor.RelayOptions{}, actor.ErrNoEndpoint, "never had"},
		"a bad reducer": {port.Ref(), actor.NewReducer[int]("x", nil), actor.RelayOptions{}, actor.ErrInvalid,
			"want a function"},
		"no room": {port.Ref(), sum, actor.RelayOptions{MaxUpdates: -1}, actor.ErrInvalid, "got -1"},
		"a negative interval": {port.Ref(), sum, actor.RelayOptions{MinDelay: -1}, actor.ErrInvalid,
			"got -1ns and 50ms"},
		"MinDelay after MaxDelay": {port.Ref(), sum, actor.RelayOptions{MinDelay: time.Second}, actor.ErrInvalid,
			"got 1s and 50ms"},
		"a Limit of nothing": {port.Ref(), sum, actor.RelayOptions{Limit: actor.Exactly(0)},
			actor.ErrInvalid, "got 0"},
		"a Limit, no reducer": {port.Ref(), actor.Reducer[int]{}, actor.RelayOptions{Limit: actor.Exactly(2)},
			actor.ErrInvalid, "want a reducer"},
	} {
		_, err := actor.OpenRelay(p, c.to, c.by, c.o)
		require.ErrorIs(t, err, c.want, name)
		require.ErrorContains(t, err, c.text, name)
	}
}
