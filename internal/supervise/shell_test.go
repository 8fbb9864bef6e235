package supervise_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/supervise"
)

// life is one child in its owner's view, through all its lives.
type life struct {
	p        supervise.Policy
	key      string
	lives    bool
	stopping bool        // by a Stop
	starting bool        // by a Start
	released bool        // its user asked for its end, or its policy forgets it
	either   bool        // its policy forgets it, unless it ended for its group
	escaped  bool        // escalated
	fell     time.Time   // when it last ended by itself; zero when that was for its group
	starts   []time.Time // that were asked for
}

// waits reports whether it may be started again.
func (c *life) waits() bool {
	return !c.lives && !c.starting && !c.released && !c.escaped && c.p.Restart != supervise.Temporary
}

// owner carries out effects as the owner of a State does, in any possible order, and checks every
// effect against the contract. It does not know how the effects come about.
type owner struct {
	t        *rapid.T
	s        *supervise.State
	strategy supervise.Strategy
	children []*life // in start order
	now      time.Time
	alarm    time.Time
	names    int
}

func (o *owner) name() string {
	o.names++
	return fmt.Sprint("k", o.names)
}

func (o *owner) spawn(p supervise.Policy) {
	c := &life{p: p, key: o.name(), lives: true}
	o.children = append(o.children, c)
	o.s.Started(c.key, p)
}

func (o *owner) filter(keep func(*life) bool) (out []*life) {
	for _, c := range o.children {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}

func stoppingOf(c *life) bool { return c.stopping }
func startingOf(c *life) bool { return c.starting }

// end is an end of a live child. During a restart of its group the owner cannot tell whether a
// child ends by itself.
func (o *owner) end(c *life, why supervise.ExitReason) {
	certain := !c.stopping && (why == supervise.Requested || o.strategy == supervise.OneForOne || o.calm())
	forgets := why == supervise.Requested || c.p.Restart == supervise.Temporary || why == supervise.Stopped &&
		c.p.Restart != supervise.Permanent
	c.released = c.released || certain && forgets
	c.either = forgets && !c.stopping
	c.fell = time.Time{}
	if certain {
		c.fell = o.now
	}
	c.lives, c.stopping = false, false
	o.carry(o.s.Ended(c.key, why, o.now))
}

// calm reports whether no effect is under way.
func (o *owner) calm() bool {
	return len(o.filter(func(c *life) bool { return c.stopping || c.starting || c.waits() })) == 0
}

func (o *owner) started(c *life, ok bool) {
	c.starting = false
	old := c.key
	if ok {
		c.lives, c.key = true, o.name()
		o.carry(o.s.Restarted(old, c.key, o.now))
		return
	}
	c.fell = time.Time{}
	if o.strategy == supervise.OneForOne { // in a group it may have been about to end anyway
		c.fell = o.now
	}
	o.carry(o.s.StartFailed(old, o.now))
}

func (o *owner) by(key string) *life {
	i := slices.IndexFunc(o.children, func(c *life) bool { return c.key == key })
	require.GreaterOrEqual(o.t, i, 0, "an effect for %s, an unknown child", key)
	return o.children[i]
}

// carry checks effects against the contract, and queues them.
func (o *owner) carry(effects []supervise.Effect) {
	grouped := o.strategy != supervise.OneForOne
	for _, e := range effects {
		switch e := e.(type) {
		case supervise.Stop:
			c := o.by(e.Key.(string))
			require.True(o.t, c.lives && !c.stopping, "SUP-1: %s does not live", e.Key)
			require.True(o.t, !grouped || len(o.filter(stoppingOf)) == 0,
				"SUP-3: a stop before the one before has ended")
			c.stopping = true
		case supervise.Start:
			c := o.by(e.Key.(string))
			require.False(o.t, c.lives || c.starting, "SUP-1: %s is there", e.Key)
			require.False(o.t, c.escaped || c.released, "SUP-1: %s had another fate", e.Key)
			require.NotEqual(o.t, supervise.Temporary, c.p.Restart, "SUP-1")
			require.True(o.t, !grouped || len(o.filter(stoppingOf)) == 0, "SUP-3: a start before the stops are done")
			require.True(o.t, !grouped || len(o.filter(startingOf)) == 0,
				"SUP-3: a start before the one before is there")
			if grouped {
				for _, before := range o.children[:slices.Index(o.children, c)] {
					require.True(o.t, before.either || !before.waits(), "SUP-3: %s comes before %s", before.key, c.key)
				}
			} else {
				most := c.p.MaxRestarts
				require.True(o.t, len(c.starts) < most || o.now.Sub(c.starts[len(c.starts)-most]) > c.p.Window,
					"SUP-4: %d restarts within %s", most+1, c.p.Window)
			}
			if !c.fell.IsZero() {
				require.GreaterOrEqual(o.t, o.now.Sub(c.fell), c.p.Backoff.First, "SUP-4")
			}
			c.starting, c.starts = true, append(c.starts, o.now)
		case supervise.SetTimer:
			require.True(o.t, e.Until.After(o.now), "a wait for a past time")
			o.alarm = e.Until
		case supervise.Escalate:
			c := o.by(e.Key.(string))
			require.False(o.t, c.lives || c.escaped || c.released, "SUP-1: %s had another fate", e.Key)
			c.escaped = true
		}
	}
}

// answer carries out one queued effect; false when there is none.
func (o *owner) answer(ok bool) bool {
	switch stopping, starting := o.filter(stoppingOf), o.filter(startingOf); {
	case len(stopping) > 0:
		o.end(stopping[0], ends.Draw(o.t, "why"))
	case len(starting) > 0:
		o.started(starting[0], ok)
	case !o.alarm.IsZero():
		if o.alarm.After(o.now) { // else it is late
			o.now = o.alarm
		}
		o.alarm = time.Time{}
		o.carry(o.s.OnTimer(o.now))
	default:
		return false
	}
	return true
}

// step is one random event.
func (o *owner) step() {
	pick := func(from []*life) *life { return rapid.SampledFrom(from).Draw(o.t, "child") }
	living := o.filter(func(c *life) bool { return c.lives })
	dead := o.filter(func(c *life) bool { return c.starting || c.waits() })
	switch dice := rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 4, 4}).Draw(o.t, "step"); {
	case dice == 0 && len(living)+len(dead) < 6:
		o.spawn(anyPolicy.Draw(o.t, "policy"))
	case dice == 1 && len(living) > 0:
		o.end(pick(living), ends.Draw(o.t, "why"))
	case dice == 2 && len(dead) > 0: // its user does not want it any more
		c := pick(dead)
		c.released = true
		o.carry(o.s.Ended(c.key, supervise.Requested, o.now))
	case dice == 3:
		o.now = o.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(o.t, "ms")) * time.Millisecond)
	default:
		o.answer(rapid.SampledFrom([]bool{true, true, true, false}).Draw(o.t, "ok"))
	}
}

// SUP-1: after any events, once the owner has carried out all effects, every child either lives or
// has its other fate. Nothing waits for ever.
func TestSupervisor_everyEndHasOneOutcome_SUP1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategy := strategies.Draw(t, "strategy")
		o := &owner{t: t, s: supervise.New(strategy), strategy: strategy, now: origin}
		for range rapid.IntRange(1, 5).Draw(t, "children") {
			o.spawn(anyPolicy.Draw(t, "policy"))
		}
		for range rapid.IntRange(100, 200).Draw(t, "steps") {
			o.step()
		}
		for rounds := 0; o.answer(true); rounds++ {
			require.Less(t, rounds, 1000, "it never settles")
		}
		living := 0
		for _, c := range o.children {
			if c.lives {
				require.False(t, c.released || c.escaped, "%s has two fates", c.key)
				living++
			}
			require.True(t, c.either || !c.waits(), "%s has no fate", c.key)
		}
		children, _ := o.s.Remembered()
		require.Equal(t, living, children, "SUP-8")
	})
}

// Neither a policy that Check refuses nor a clock that runs backwards makes it panic.
func TestSupervisor_neverPanics_SUP8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := supervise.New(supervise.Strategy(rapid.Byte().Draw(t, "strategy")))
		for range rapid.IntRange(0, 100).Draw(t, "events") {
			key, now := rapid.IntRange(0, 3).Draw(t, "key"), origin.Add(time.Duration(rapid.Int64().Draw(t, "now")))
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				p := supervise.Policy{
					Restart: supervise.Restart(rapid.IntRange(0, 5).Draw(t, "restart")), MaxRestarts: rapid.Int().Draw(t, "most"),
					Window: time.Duration(rapid.Int64().Draw(t, "within")),
					Backoff: supervise.Backoff{
						First: time.Duration(rapid.Int64().Draw(t, "first")), Max: time.Duration(rapid.Int64().Draw(t, "max")),
					},
				}
				s.Started(key, p)
			case 1, 2:
				s.Ended(key, supervise.ExitReason(rapid.IntRange(0, 4).Draw(t, "why")), now)
			case 3:
				s.Restarted(key, rapid.IntRange(0, 3).Draw(t, "new"), now)
			case 4:
				s.StartFailed(key, now)
			case 5:
				s.OnTimer(now)
			}
			children, _ := s.Remembered()
			require.LessOrEqual(t, children, 4)
		}
	})
}

func TestSupervisor_restartHistoryIsBounded_SUP8(t *testing.T) {
	for strategy, most := range map[supervise.Strategy]int{supervise.OneForOne: 4, supervise.OneForAll: 1000,
		supervise.RestForOne: 1000} {
		s, now := supervise.New(strategy), origin
		s.Started("a", supervise.Policy{Restart: supervise.Permanent, MaxRestarts: 4})
		for range 2000 {
			now = now.Add(time.Minute)
			require.Equal(t, "start a", text(s.Ended("a", supervise.Failed, now)))
			require.Empty(t, text(s.Restarted("a", "a", now)))
		}
		_, times := s.Remembered()
		require.Equal(t, most, times, strategy)
	}
}
