package system

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// vault holds the written values, as a bucket does.
type vault struct {
	leaseRecord
	revision, last uint64
}

func (v *vault) write(w writeLease) (uint64, bool) {
	if w.revision != v.revision {
		return 0, false
	}
	v.last++
	v.leaseRecord, v.revision = w.leaseRecord, v.last
	return v.revision, true
}

// contender is a controller on a network with delays. Its clock may be early or late.
type contender struct {
	lease
	skew   time.Duration
	asleep time.Time // it does nothing before
	cut    time.Time // nothing of it arrives before
	result func()    // what came of what it has asked for
	lands  time.Time // when that reaches it
	epochs []uint64
}

func (c *contender) clock(now time.Time) time.Time { return now.Add(c.skew) }

// leads reports whether the contender acts: it is awake and, by its own clock, holds the lease.
func (c *contender) leads(now time.Time) bool {
	return c.leading && c.clock(now).Before(c.renewed.Add(leaseAbandon)) && !now.Before(c.asleep)
}

// Messages may be lost or late, and contenders may pause. Two never lead at a time by their own
// clocks, and no epoch comes twice. When everything works again one leads within 4 s; one second of
// a failover's 5 s is for its start.
func TestLease_hasOneLeaderAtATime_WORLD13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const tick = 50 * time.Millisecond
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) // even: rapid's own numbers are small ones
		between := func(least, most int) int { return least + dice.IntN(most-least+1) }
		start := time.Unix(1000, 0)
		now, v := start, &vault{}
		all := make([]*contender, 3)
		for i := range all {
			all[i] = &contender{lease: lease{self: fmt.Sprint(i)},
				skew: time.Duration(between(-5000, 5000)) * time.Millisecond}
		}
		used := map[uint64]string{}
		calm := false
		chance := func(percent int) bool { return !calm && between(0, 99) < percent }
		move := func(c *contender) {
			if now.Before(c.asleep) {
				return
			}
			if c.result != nil {
				if now.Before(c.lands) {
					return
				}
				c.result()
				c.result = nil
			}
			sent := c.clock(now)
			c.lands = now.Add(tick)
			if chance(5) {
				c.lands = now.Add(time.Duration(between(1, 40)) * tick)
			}
			switch a := c.next(sent).(type) {
			case readLease:
				g, revision := v.leaseRecord, v.revision
				if now.Before(c.cut) || chance(10) {
					c.result = func() { c.readFailed(c.clock(now)) }
				} else {
					c.result = func() { c.observed(c.clock(now), g, revision) }
				}
			case writeLease:
				if at := now.Add(a.timeout); at.Before(c.lands) {
					c.lands = at
				}
				revision, ok := uint64(0), false
				if !now.Before(c.cut) && !chance(10) { // it arrives
					revision, ok = v.write(a)
				}
				if ok {
					require.Equal(t, c.self, cmpOr(used[a.Epoch], c.self), "epoch %d", a.Epoch)
					used[a.Epoch] = c.self
				}
				ok = ok && !chance(10) // and the answer does
				c.result = func() { c.writeDone(sent, c.clock(now), a, revision, ok) }
			}
			if c.leading && (len(c.epochs) == 0 || c.epochs[len(c.epochs)-1] != c.known.Epoch) {
				c.epochs = append(c.epochs, c.known.Epoch)
			}
		}
		lead := func() (n int) {
			for _, c := range all {
				if c.leads(now) {
					n++
				}
			}
			return n
		}
		for range between(0, 600) {
			now = now.Add(tick)
			c := all[between(0, 2)]
			switch {
			case chance(2):
				c.asleep = now.Add(time.Duration(between(1, 200)) * tick)
			case chance(1):
				c.cut = now.Add(time.Duration(between(1, 80)) * tick)
			case chance(2):
				c.outranked(uint64(between(0, 100)))
			case chance(1):
				if w, ok := c.releaseWrite(); ok && c.leads(now) {
					v.write(w)
					*c = contender{lease: lease{self: c.self + "'"}, skew: c.skew}
				}
			}
			for _, c := range all {
				move(c)
			}
			require.LessOrEqual(t, lead(), 1)
		}
		calm = true
		for _, c := range all {
			if c.asleep.After(now) {
				c.asleep = now
			}
			c.lands, c.cut = now, now
		}
		within := now.Add(4 * time.Second)
		for lead() == 0 {
			require.True(t, now.Before(within), "no contender leads: %+v", v)
			now = now.Add(tick)
			for _, c := range all {
				move(c)
			}
		}
		for _, c := range all {
			for i := 1; i < len(c.epochs); i++ {
				require.Greater(t, c.epochs[i], c.epochs[i-1])
			}
		}
	})
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// The holder renews the lease each half second. After a release another contender has it at its
// next look.
func TestLease_isRenewedAndReleased(t *testing.T) {
	now, v := time.Unix(1000, 0), &vault{}
	a, b := &lease{self: "a"}, &lease{self: "b"}
	do := func(l *lease) string {
		switch x := l.next(now).(type) {
		case readLease:
			l.observed(now, v.leaseRecord, v.revision)
			return "look"
		case writeLease:
			revision, ok := v.write(x)
			l.writeDone(now, now, x, revision, ok)
			return fmt.Sprintf("write %s %d", x.Holder, x.Epoch)
		case waitUntil:
			return "rest " + x.until.Sub(now).String()
		}
		return ""
	}
	require.Equal(t, []string{"look", "write a 1", "rest 500ms"}, []string{do(a), do(a), do(a)})
	require.Equal(t, []string{"look", "rest 250ms"}, []string{do(b), do(b)})
	now = now.Add(leaseRenew)
	require.False(t, a.sawRenewal, "no earlier holder acted")
	require.Equal(t, []string{"write a 1", "rest 500ms"}, []string{do(a), do(a)})
	require.True(t, a.sawRenewal, "it has acted itself")
	require.Equal(t, []string{"look", "rest 250ms"}, []string{do(b), do(b)})
	w, ok := a.releaseWrite()
	require.True(t, ok)
	v.write(w)
	now = now.Add(leasePoll)
	require.True(t, b.sawRenewal, "an acting holder")
	require.Equal(t, []string{"look", "write b 2"}, []string{do(b), do(b)})
	late := &lease{self: "late"}
	require.Equal(t, "look", do(late))
	require.False(t, late.sawRenewal, "a holder without a seen renewal")
	_, ok = b.releaseWrite()
	require.True(t, ok)
	b.outranked(40)
	_, ok = b.releaseWrite()
	require.False(t, ok)
	require.Equal(t, "write b 41", do(b))
	now = now.Add(leaseAbandon)
	require.Equal(t, []string{"look", "look"}, []string{do(a), do(b)})
	require.EqualError(t, a.lossError(), "b has the lease, in epoch 41")
	require.EqualError(t, b.lossError(), "the lease was not renewed for 2s")
}

// A holder that dies without a release, at any time in its term, has a successor within 3 s and the
// time of its messages. A lost message adds its timeout. The rest of a failover's 5 s is for the
// start of the next term.
func TestLease_takeoverLeavesASafetyMargin_WORLD13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
		}
		start, v := time.Unix(1000, 0), &vault{}
		trip, lost := ms("trip", 100), rapid.IntRange(-1, 20).Draw(t, "lost")
		dead := start.Add(2*time.Second + ms("dies", 1000))
		run := func(l *lease, from time.Time, until func(time.Time) bool,
			write func(time.Time, writeLease) (uint64, bool)) time.Time {
			for now, words := from, 0; ; words++ {
				if until(now) {
					return now
				}
				sent, gone := now, l.self == "b" && now.After(dead) && words == lost
				now = now.Add(trip)
				if gone {
					now = sent.Add(storeTimeout)
				}
				switch a := l.next(sent).(type) {
				case readLease:
					if gone {
						l.readFailed(now)
					} else {
						l.observed(now, v.leaseRecord, v.revision)
					}
				case writeLease:
					revision, ok := uint64(0), false
					if !gone {
						revision, ok = write(sent, a)
					}
					l.writeDone(sent, now, a, revision, ok)
				case waitUntil:
					now, words = a.until, words-1
				}
			}
		}
		a, b := &lease{self: "a"}, &lease{self: "b"}
		type written struct {
			at time.Time
			w  writeLease
		}
		var past []written
		run(a, start, func(now time.Time) bool { return now.After(dead) },
			func(at time.Time, w writeLease) (uint64, bool) {
				if at.After(dead) {
					return 0, false
				}
				past = append(past, written{at, w})
				return v.write(w)
			})
		*v = vault{}
		replay := func(now time.Time) bool { // what a wrote by then
			for len(past) > 0 && !past[0].at.After(now) {
				v.write(past[0].w)
				past = past[1:]
			}
			return b.leading
		}
		followed := run(b, start.Add(500*time.Millisecond+ms("begins", 1000)), replay,
			func(_ time.Time, w writeLease) (uint64, bool) { return v.write(w) })
		require.True(t, followed.After(dead))
		limit := leasePoll + leaseTake + 4*trip
		if lost >= 0 {
			limit += storeTimeout + leasePoll
		}
		require.LessOrEqual(t, followed.Sub(dead), limit)
		require.LessOrEqual(t, limit-4*trip, 4*time.Second)
	})
}

func TestLease_lostBucketKeepsTheHolderUntilExpiry_WORLD14(t *testing.T) {
	start := time.Unix(1000, 0)
	a := &lease{self: "a"}
	a.observed(start, leaseRecord{}, 0)
	first := a.next(start).(writeLease)
	a.writeDone(start, start, first, 7, true)
	a.writeDone(start, start, first, 0, false)
	a.observed(start, leaseRecord{}, 0)
	require.True(t, a.leading)
	again := a.next(start).(writeLease)
	require.Equal(t, first.leaseRecord, again.leaseRecord)
	require.Zero(t, again.revision)

	b := &lease{self: "b"}
	b.observed(start, leaseRecord{"a", 3}, 7)
	b.observed(start.Add(time.Second), leaseRecord{}, 0)
	require.IsType(t, readLease{}, b.next(start.Add(2*time.Second)))
	b.observed(start.Add(2*time.Second), leaseRecord{}, 0)
	b.observed(start.Add(leaseTake), leaseRecord{}, 0)
	require.Equal(t, writeLease{leaseRecord{"b", 4}, 0, leaseAbandon}, b.next(start.Add(leaseTake)))
}

func TestLease_repeatedReadFailuresCondemnTheBucket_WORLD14(t *testing.T) {
	start := time.Unix(1000, 0)
	l := &lease{self: "a"}
	require.False(t, l.readFailed(start))
	require.True(t, l.readFailed(start.Add(leaseTake)))
	l.observed(start.Add(leaseTake), leaseRecord{"b", 1}, 1)
	require.False(t, l.readFailed(start.Add(2*leaseTake)), "it was read in between")
}
