package actor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

var errPoison = errors.New("poison")

// list is a reducer that shows the folded values in order. It cannot fold negative numbers.
func list() Reducer[[]int] {
	return NewReducer("list", func(a, b []int) ([]int, error) {
		both := slices.Concat(a, b)
		if slices.Min(both) < 0 {
			return nil, errPoison
		}
		return both, nil
	})
}

// dumb is a relay by its contract, a millisecond at a time.
type dumb struct {
	size           int
	first, longest time.Duration

	now      time.Duration
	buffered [][]int
	sets     int            // how often the alarm was set
	set, due *time.Duration // when it was set last, and rings
	sent     [][]int
}

func (d *dumb) fold() ([]int, bool) {
	all := slices.Concat(d.buffered...)
	return all, len(d.buffered) == 1 || !slices.ContainsFunc(all, func(n int) bool { return n < 0 })
}

func (d *dumb) tick() {
	if d.now += time.Millisecond; d.due == nil || d.now < *d.due {
		return
	}
	d.due = nil
	if all, ok := d.fold(); ok {
		d.sent, d.buffered = append(d.sent, all), nil
	}
}

func (d *dumb) take(u []int) (taken bool) {
	d.buffered = append(d.buffered, u)
	if len(d.buffered) == d.size {
		all, ok := d.fold()
		if !ok {
			d.buffered = d.buffered[:d.size-1]
			return false
		}
		d.sent, d.buffered, d.set, d.due = append(d.sent, all), nil, nil, nil
		return true
	}
	interval := d.longest
	if d.sets < 20 {
		interval = min(d.longest, d.first<<d.sets)
	}
	d.sets++
	due := d.now + interval
	if d.set != nil {
		due = max(d.now, *d.set+interval)
	}
	now := d.now
	d.set, d.due = &now, &due
	return true
}

func (d *dumb) end() {
	if len(d.buffered) == 0 {
		return
	}
	if all, ok := d.fold(); ok {
		d.buffered = [][]int{all}
	}
	d.sent, d.buffered = append(d.sent, d.buffered...), nil
}

// driven is the pure part of a relay, with an alarm under the test's control.
type driven struct {
	rules relayRules[[]int]
	state relayState[[]int]
	alarm time.Time
	sent  [][]int
}

func drive(t *rapid.T, o RelayOptions) *driven {
	rules, err := newRelayRules(list(), o)
	require.NoError(t, err)
	return &driven{rules: rules, state: relayState[[]int]{interval: rules.first}}
}

func (d *driven) does(kind relayKind, at time.Time, u []int) error {
	next, send, err := d.rules.step(d.state, relayEvent[[]int]{kind, at, u})
	d.sent = append(d.sent, send...)
	if err == nil || kind == relayClose {
		d.state, d.alarm = next, next.due
	}
	return err
}

func (d *driven) tick(now time.Time) error {
	if d.alarm.IsZero() || now.Before(d.alarm) {
		return nil
	}
	d.alarm = time.Time{}
	return d.does(relayTimer, now, nil)
}

func TestRelay_matchesItsModel_PORT5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := RelayOptions{MaxUpdates: rapid.IntRange(0, 6).Draw(t, "size")}
		if rapid.Bool().Draw(t, "not the defaults") {
			o.MinDelay = time.Duration(rapid.IntRange(1, 8).Draw(t, "first")) * time.Millisecond
			o.MaxDelay = o.MinDelay + time.Duration(rapid.IntRange(0, 40).Draw(t, "more"))*time.Millisecond
		}
		relay := drive(t, o)
		oracle := &dumb{size: relay.rules.size, first: relay.rules.first, longest: relay.rules.maxInterval}
		poison := rapid.IntRange(0, 3).Draw(t, "poison") // of 20 updates
		epoch := time.Unix(0, 0)
		var accepted []int
		for n := range rapid.IntRange(1, 60).Draw(t, "updates") {
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 7, 60, 120}).Draw(t, "pause") {
				oracle.tick()
				before := len(relay.state.buffer)
				if err := relay.tick(epoch.Add(oracle.now)); err != nil {
					require.ErrorIs(t, err, errPoison)
					require.Len(t, relay.state.buffer, before, "an error keeps the buffer")
				}
			}
			u := []int{n}
			if rapid.IntRange(1, 20).Draw(t, "is poison") <= poison {
				u[0] = -1 - n
			}
			if early := epoch.Add(oracle.now - time.Hour); rapid.Bool().Draw(t, "a late ring") {
				require.NoError(t, relay.does(relayTimer, early, nil), "the alarm was set again since")
			}
			err := relay.does(relayUpdate, epoch.Add(oracle.now), u)
			require.Equal(t, oracle.take(u), err == nil, "%v", err)
			if err == nil {
				accepted = append(accepted, u...)
			} else {
				require.ErrorIs(t, err, errPoison)
				require.ErrorIs(t, err, ErrBadMessage)
			}
			require.Less(t, len(relay.state.buffer), oracle.size)
			require.Equal(t, oracle.sent, relay.sent)
		}
		oracle.end()
		require.NoError(t, relay.does(relayClose, epoch.Add(oracle.now), nil))
		require.NoError(t, relay.does(relayClose, epoch.Add(oracle.now), nil), "once")
		require.NoError(t, relay.does(relayTimer, epoch.Add(oracle.now), nil))
		require.Equal(t, oracle.sent, relay.sent)
		require.Equal(t, accepted, slices.Concat(relay.sent...), "each accepted update goes on once, in order")
		require.ErrorIs(t, relay.does(relayUpdate, epoch, []int{1}), ErrPortGone)
	})
}

func TestRelay_delaysNoUpdateBeyondTwiceMax_PORT5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		relay, now := drive(t, RelayOptions{}), time.Unix(0, 0)
		came := []time.Time{}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 60).Draw(t, "pauses")
		for n, pause := range append(pauses, 100) { // the last one lets the alarm ring
			for range pause {
				now = now.Add(time.Millisecond)
				require.NoError(t, relay.tick(now))
				if gone := len(slices.Concat(relay.sent...)); gone < len(came) {
					require.LessOrEqual(t, now.Sub(came[gone]), 100*time.Millisecond)
				}
			}
			if n < len(pauses) {
				came = append(came, now)
				require.NoError(t, relay.does(relayUpdate, now, []int{n}))
			}
		}
		require.Len(t, slices.Concat(relay.sent...), len(came))
	})
}

func TestRelay_withALimitSendsOneFoldOfN_PORT3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		relay := drive(t, RelayOptions{Limit: Exactly(n)})
		var accepted []int
		for i := 0; len(accepted) < n; i++ {
			require.Empty(t, relay.sent)
			u := rapid.SampledFrom([]int{i, i, -1}).Draw(t, "update")
			if u < 0 && len(accepted) == 0 {
				continue // it would be the value that nothing can be folded into
			}
			err := relay.does(relayUpdate, time.Unix(int64(i), 0), []int{u})
			if u < 0 {
				require.ErrorIs(t, err, errPoison, "it is refused and does not count")
				continue
			}
			require.NoError(t, err)
			accepted = append(accepted, u)
			require.True(t, relay.alarm.IsZero())
			if len(accepted) < n && rapid.IntRange(0, 19).Draw(t, "ends early") == 0 {
				require.ErrorIs(t, relay.does(relayClose, time.Unix(0, 0), nil), ErrStopped)
				require.Empty(t, relay.sent, "fewer updates yield no value")
				return
			}
		}
		require.Equal(t, [][]int{accepted}, relay.sent)
		require.ErrorIs(t, relay.does(relayUpdate, time.Unix(0, 0), []int{1}), ErrPortGone)
		require.NoError(t, relay.does(relayClose, time.Unix(0, 0), nil))
		require.Len(t, relay.sent, 1)
	})
}

// home is a proc of a test.
func home(t *testing.T) *Proc {
	t.Helper()
	id, err := subjects.NewHostID("home")
	require.NoError(t, err)
	p, err := NewProc(t.Context(), Options{ID: id.Proc(), Bus: bustest.Open(t, bustest.Server(t))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

// arrival is a value at a port, with its time since the test's last look.
type arrival struct {
	after time.Duration
	v     []int
}

// sink is a port behind relays, in a bubble.
type sink struct {
	PortRef[[]int]
	p      *Proc
	refuse atomic.Pointer[Error] // what the port says to all that comes
	mu     sync.Mutex
	since  time.Time
	came   []arrival
}

func newSink(t *testing.T) *sink {
	s := &sink{p: home(t), since: time.Now()}
	raw := openPrivate(s.p, func(at RawPort, in Incoming) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, err := decodeIncoming[[]int](at, in)
		if why := s.refuse.Load(); err != nil || why != nil {
			return cmp.Or(err, error(why))
		}
		s.came = append(s.came, arrival{time.Since(s.since), v})
		return nil
	}, nil)
	s.PortRef = PortRef[[]int]{portRef{id: raw.ID()}}
	return s
}

// look waits for a second and lists the arrivals since the last call.
func (s *sink) look() []arrival {
	<-time.After(time.Second)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	came := s.came
	s.came, s.since = nil, time.Now()
	return came
}

func sendAll(t *testing.T, to PortRef[[]int], ns ...int) {
	t.Helper()
	for _, n := range ns {
		require.NoError(t, to.Send(t.Context(), []int{n}))
	}
}

func (s *sink) relay(t *testing.T, o RelayOptions) *Relay[[]int] {
	t.Helper()
	r, err := OpenRelay(s.p, s.PortRef, list(), o)
	require.NoError(t, err)
	return r
}

func TestRelay_sendsAFullBufferAtOnce_PORT5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newSink(t)
		r := to.relay(t, RelayOptions{})
		sendAll(t, r.Ref(), 1)
		require.Equal(t, []arrival{{time.Millisecond, []int{1}}}, to.look(), "the first waits for 1 ms")
		sendAll(t, r.Ref(), 2)
		require.Equal(t, []arrival{{0, []int{2}}}, to.look(), "a lone one for nothing")
		sendAll(t, r.Ref(), 3)
		synctest.Wait() // it has gone on; what comes now waits, unless the buffer is full
		sendAll(t, r.Ref(), 4, 5, 6, 7, 8)
		require.Equal(t, []arrival{{0, []int{3}}, {0, []int{4, 5, 6, 7, 8}}}, to.look(), "nor does a full buffer")
		sendAll(t, r.Ref(), 9)
		require.Equal(t, []arrival{{50 * time.Millisecond, []int{9}}}, to.look(),
			"by now the interval is at its end")
		require.NoError(t, r.Close())
	})
}

func TestRelay_intervalDoublesFrom1msTo50ms_PORT5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newSink(t)
		for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50} {
			r := to.relay(t, RelayOptions{MaxUpdates: 100})
			for i := range n + 1 {
				sendAll(t, r.Ref(), i)
			}
			came := to.look()
			require.Len(t, came, 1)
			require.Len(t, came[0].v, n+1)
			require.Equal(t, want*time.Millisecond, came[0].after, "with %d updates at a time", n+1)
			require.NoError(t, r.Close())
		}
	})
}

func TestRelay_keepsItsBufferWhenFoldingFails_PORT5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newSink(t)
		r := to.relay(t, RelayOptions{})
		sendAll(t, r.Ref(), 1, -1)
		require.Empty(t, to.look(), "the alarm rang in vain")
		sendAll(t, r.Ref(), 2, 3)
		require.Empty(t, to.look(), "and again")
		for range 2 {
			err := r.Ref().Send(t.Context(), []int{4})
			require.ErrorIs(t, err, ErrBadMessage)
			require.ErrorIs(t, err, errPoison)
		}
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.Equal(t, []arrival{{0, []int{1}}, {0, []int{-1}}, {0, []int{2}}, {0, []int{3}}}, to.look(),
			"at the end it goes by ones, once")
	})
}

func TestRelay_keepsItsBufferWhenSendingFails_PORT5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newSink(t)
		r := to.relay(t, RelayOptions{})
		to.refuse.Store(errorf(CodeMailboxFull, "", "", "full"))
		sendAll(t, r.Ref(), 1, 2)
		require.Empty(t, to.look(), "the alarm rang in vain")
		sendAll(t, r.Ref(), 3, 4)
		require.ErrorIs(t, r.Ref().Send(t.Context(), []int{5}), ErrMailboxFull)
		require.Empty(t, to.look())
		to.refuse.Store(nil)
		sendAll(t, r.Ref(), 6)
		require.Equal(t, []arrival{{0, []int{1, 2, 3, 4, 6}}}, to.look())
		to.refuse.Store(errorf(CodePortGone, "", "", "gone"))
		sendAll(t, r.Ref(), 7)
		require.ErrorIs(t, r.Close(), ErrPortGone, "what was not sent is not lost in silence")
		require.NoError(t, r.Close())
	})
}
