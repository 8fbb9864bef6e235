package worlds

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// vault is what is written, as a bucket keeps it.
type vault struct {
	grant
	revision, last uint64
}

func (v *vault) write(w writeTo) (uint64, bool) {
	if w.revision != v.revision {
		return 0, false
	}
	v.last++
	v.grant, v.revision = w.grant, v.last
	return v.revision, true
}

// contender is a controller whose words travel. Its clock may be early or late.
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

// leads reports whether it acts: it is awake, and its own clock says that the lease is its own.
func (c *contender) leads(now time.Time) bool {
	return c.leading && c.clock(now).Before(c.renewed.Add(leaseAbandon)) && !now.Before(c.asleep)
}

// Whatever is lost, late or asleep, two never lead at a time by their own clocks, and no epoch comes twice. When
// everything works again somebody leads within 5 s.
func TestLease_oneLeadsAtATime_WORLD13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const tick = 50 * time.Millisecond
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) // even: rapid's own numbers are small ones
		between := func(least, most int) int { return least + dice.IntN(most-least+1) }
		start := time.Unix(1000, 0)
		now, v := start, &vault{}
		all := make([]*contender, 3)
		for i := range all {
			all[i] = &contender{lease: lease{self: fmt.Sprint(i)}, skew: time.Duration(between(-5000, 5000)) * time.Millisecond}
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
			switch a := c.act(sent).(type) {
			case lookAt:
				g, revision := v.grant, v.revision
				if now.Before(c.cut) || chance(10) {
					c.result = func() { c.unseen(c.clock(now)) }
				} else {
					c.result = func() { c.saw(c.clock(now), g, revision) }
				}
			case writeTo:
				if at := now.Add(a.within); at.Before(c.lands) {
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
				c.result = func() { c.wrote(sent, c.clock(now), a, revision, ok) }
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
				if w, ok := c.back(); ok && c.leads(now) {
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
		within := now.Add(5 * time.Second)
		for lead() == 0 {
			require.True(t, now.Before(within), "nobody leads: %+v", v)
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

// The holder renews every second; when it gives the lease back, another has it at its next look.
func TestLease_isKeptAndGivenBack(t *testing.T) {
	now, v := time.Unix(1000, 0), &vault{}
	a, b := &lease{self: "a"}, &lease{self: "b"}
	do := func(l *lease) string {
		switch x := l.act(now).(type) {
		case lookAt:
			l.saw(now, v.grant, v.revision)
			return "look"
		case writeTo:
			revision, ok := v.write(x)
			l.wrote(now, now, x, revision, ok)
			return fmt.Sprintf("write %s %d", x.Holder, x.Epoch)
		case rest:
			return "rest " + x.until.Sub(now).String()
		}
		return ""
	}
	require.Equal(t, []string{"look", "write a 1", "rest 1s"}, []string{do(a), do(a), do(a)})
	require.Equal(t, []string{"look", "rest 500ms"}, []string{do(b), do(b)})
	now = now.Add(time.Second)
	require.Equal(t, []string{"write a 1", "rest 1s"}, []string{do(a), do(a)})
	require.Equal(t, []string{"look", "rest 500ms"}, []string{do(b), do(b)})
	w, ok := a.back()
	require.True(t, ok)
	v.write(w)
	now = now.Add(leaseLook)
	require.Equal(t, []string{"look", "write b 2"}, []string{do(b), do(b)})
	_, ok = b.back()
	require.True(t, ok)
	b.outranked(40)
	_, ok = b.back()
	require.False(t, ok)
	require.Equal(t, "write b 41", do(b))
}
