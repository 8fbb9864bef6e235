package presence

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// harm lists the faults of a random run, with their targets: hosts a and b, never c, and the
// watcher.
var (
	harmToHosts   = []string{"killed", "vanishes", "freezes", "leaves", "unreachable", "goodbye", "lags", "mend"}
	harmToWatcher = []string{"down", "stall", "pause", "busy", "quick", "heal", "hint", "forged"}
)

// trial is a random run.
type trial struct {
	*sim
	t        *rapid.T
	told     map[string]Change
	well     map[string]time.Duration // since when a host has been; none: it is not
	partings map[string]bool          // who ever said goodbye
	hears    time.Duration            // since when the watcher is connected
}

func newTrial(t *rapid.T) *trial {
	r := &trial{t: t, told: map[string]Change{}, well: map[string]time.Duration{}, partings: map[string]bool{}}
	r.sim = newSim(r.check)
	for _, label := range []string{"a", "b", "c"} {
		r.well[label] = 0
		r.step(hostAdded{r.host(label).id})
	}
	return r
}

// check compares each change with the truth.
func (r *trial) check(c Change) {
	label := c.Host.Label()
	last, before := r.told[label]
	started := c.State == Alive && c.Incarnation != last.Incarnation
	require.True(r.t, !before || last.State != c.State || started, "%v: again: %s", r.now, c.line())
	r.told[label] = c
	if c.State != Dead {
		return
	}
	require.NotEqual(r.t, "c", label, "%v: nothing was ever wrong with it: %s", r.now, c.line())
	if strings.HasPrefix(c.Reason, "it has stopped") {
		require.True(r.t, r.partings[label], "PRES-4")
		return
	}
	h, since := r.hosts[label], r.well[label]
	require.True(r.t, since == never || r.now-since < 4*time.Second+r.busy+h.lag, "%v: well since %v: %s", r.now,
		since, c.line())
	least, beat := defaults().dead, h.lastBeat
	// a heartbeat counts by its sending time: it may be older than the evidence against the host
	if _, known := r.core.find(h.id); known.allConnsEnded() {
		least, beat = defaults().confirm, h.lastSent
	}
	require.GreaterOrEqual(r.t, r.now-r.hears, least, "%v: PRES-1: %s", r.now, c.line())
	require.GreaterOrEqual(r.t, r.now-beat, least, "%v: %s", r.now, c.line())
}

// act harms a host, or heals it.
func (r *trial) act(verb, label string) {
	h := r.hosts[label]
	ill := true
	switch verb {
	case "killed":
		h.dead = true
		r.disconnect(h.conns)
	case "vanishes":
		h.dead = true
	case "freezes":
		h.frozen = true
	case "leaves":
		h.away = true
		r.disconnect(h.conns)
	case "unreachable":
		h.away = true
	case "goodbye":
		r.beat(h, true)
		h.dead, r.partings[label] = true, true
	case "lags":
		h.lag = time.Duration(rapid.IntRange(0, 2000).Draw(r.t, "lag")) * time.Millisecond
		ill = r.well[label] == never
	case "mend":
		if h.dead {
			h.life, h.seq = h.life+1, 0
		}
		if h.dead || h.away {
			r.addConnections(h)
		}
		h.dead, h.frozen, h.away = false, false, false
		ill = false
	}
	if ill {
		r.well[label] = never
	} else if r.well[label] == never {
		r.well[label] = r.now
	}
}

// actOnWatcher harms or heals the watcher, or forges a message about a host.
func (r *trial) actOnWatcher(verb, label string) {
	h := r.hosts[label]
	switch verb {
	case "down":
		r.lose()
	case "stall":
		r.stalled = true
	case "pause":
		r.paused = true
	case "busy":
		r.busy = time.Duration(rapid.IntRange(0, 3000).Draw(r.t, "busy")) * time.Millisecond
	case "quick":
		r.busy = 0
	case "heal":
		r.mends()
	case "hint":
		r.disconnect(h.conns[:1])
	case "forged":
		r.disconnect(h.conns)
	}
	if r.down {
		r.hears = never
	}
}

func (r *trial) mends() {
	if r.down {
		r.hears = r.now
	}
	r.heal()
}

func TestStep_findsExactlyTheDeadHosts(t *testing.T) { // PRES-1, PRES-4
	rapid.Check(t, func(t *rapid.T) {
		r := newTrial(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			r.run(r.now + time.Duration(rapid.IntRange(0, 6000).Draw(t, "pause"))*time.Millisecond)
			if rapid.Bool().Draw(t, "host") {
				r.act(rapid.SampledFrom(harmToHosts).Draw(t, "harm"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "to"))
			} else {
				r.actOnWatcher(rapid.SampledFrom(harmToWatcher).Draw(t, "harm"),
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "to"))
			}
		}
		r.mends()
		r.busy = 0
		r.run(r.now + 90*time.Second)
		for label, since := range r.well {
			want := Alive
			if since == never {
				want = Dead
			}
			require.Equal(t, want, r.told[label].State, "%s, well since %v: %s", label, since, r.told[label].line())
		}
	})
}
