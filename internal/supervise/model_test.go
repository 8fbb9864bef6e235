package supervise_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/supervise"
)

var (
	strategies = rapid.SampledFrom([]supervise.Strategy{supervise.OneForOne, supervise.OneForAll,
		supervise.RestForOne})
	ends = rapid.SampledFrom([]supervise.ExitReason{supervise.Stopped, supervise.Requested,
		supervise.Failed, supervise.Failed})
)

// anyPolicy draws small policies, so histories reach every limit.
var anyPolicy = rapid.Custom(func(t *rapid.T) supervise.Policy {
	first := rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "first")
	longest := 0
	if first > 0 {
		longest = rapid.IntRange(first, 8).Draw(t, "max")
	}
	return supervise.Policy{
		Restart: rapid.SampledFrom([]supervise.Restart{
			supervise.Propagate, supervise.Temporary, supervise.Transient, supervise.Permanent, supervise.Permanent,
		}).Draw(t, "when"),
		MaxRestarts: rapid.IntRange(1, 4).Draw(t, "most"),
		Window:      time.Duration(rapid.IntRange(1, 20).Draw(t, "within")) * time.Second,
		Backoff: supervise.Backoff{First: time.Duration(first) * time.Second,
			Max: time.Duration(longest) * time.Second},
	}
})

// likely is a plausible event of a child, and its key.
func likely(t *rapid.T, r *referee) (event, key string) {
	var known []int
	for who := range r.keys {
		if !r.is(who, gone) {
			known = append(known, who)
		}
	}
	if len(known) == 0 {
		return "spawned", "a"
	}
	who := rapid.SampledFrom(known).Draw(t, "who")
	switch {
	case r.is(who, born):
		event = "ended"
	case r.is(who, ended):
		event = "due"
	default:
		event = rapid.SampledFrom([]string{"restarted", "restarted", "start failed"}).Draw(t, "start")
	}
	return event, r.keys[who]
}

// anything is every event in every order, of present and absent keys. Half of them are valid for an
// owner, so histories go far.
func anything(t *rapid.T) {
	strategy := strategies.Draw(t, "strategy")
	s, r := supervise.New(strategy), &referee{strategy: strategy, now: origin}
	keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	events := rapid.SampledFrom([]string{"spawned", "ended", "ended", "restarted", "start failed", "due"})
	until := rapid.SampledFrom([]int{30, 100, 100, 100}).Draw(t, "until")
	for i := range 100 {
		if i == until {
			s.Stopping()
			r.over = true
		}
		r.now = r.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 2, 5}).Draw(t, "s") * time.Second)
		event, key := events.Draw(t, "event"), keys.Draw(t, "key")
		if rapid.Bool().Draw(t, "likely") {
			event, key = likely(t, r)
		}
		var got, want string
		switch event {
		case "spawned":
			p := anyPolicy.Draw(t, "policy")
			s.Started(key, p)
			r.spawned(key, p)
		case "ended":
			why := ends.Draw(t, "why")
			got, want = text(s.Ended(key, why, r.now)), r.ended(key, why)
		case "restarted":
			to := key
			if rapid.Bool().Draw(t, "renamed") {
				to = keys.Draw(t, "to")
			}
			got, want = text(s.Restarted(key, to, r.now)), r.restarted(key, to)
		case "start failed":
			got, want = text(s.StartFailed(key, r.now)), r.startFailed(key)
		case "due":
			got, want = text(s.OnTimer(r.now)), r.rang()
		}
		require.Equal(t, want, got, "%s %s at %s, %s", key, event, r.now.Sub(origin), strategy)
	}
	children, _ := s.Remembered()
	living := 0
	for who := range r.keys {
		if !r.over && !r.is(who, gone) {
			living++
		}
	}
	require.Equal(t, living, children, "SUP-8: it remembers exactly the children with a possible restart")
}

// The State and a reader of the whole history always agree (SUP-1 … SUP-8).
func TestModel_effectsMatchTheHistory(t *testing.T) { rapid.Check(t, anything) }

func FuzzEvents(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anything)) }
