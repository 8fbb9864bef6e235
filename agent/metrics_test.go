package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
)

func drawMetrics(t *rapid.T) Metrics {
	name := rapid.SampledFrom([]string{"", "a", "b"})
	var m Metrics
	for range rapid.IntRange(0, 3).Draw(t, "meshes") {
		n := rapid.Uint64Range(0, 9)
		one := MeshMetrics{
			Mesh: name.Draw(t, "mesh"), Silent: 1, Memory: 5, Stats: actor.Stats{Late: n.Draw(t, "late")},
			Types: []TypeMetrics{{
				Type: name.Draw(t, "type"), Actors: map[actor.Status]int{actor.Running: 1},
				Endpoints: []actor.EndpointInfo{{Name: name.Draw(t, "endpoint"), Handled: n.Draw(t, "handled")}},
			}},
		}
		one.Ranks = map[Phase]int{Running: 1}
		one.Leases.Expired = 1
		if ttl := rapid.IntRange(0, 2).Draw(t, "ttl"); ttl > 0 {
			one.Leases.Remaining = time.Duration(rapid.IntRange(-1, 3).Draw(t, "remaining"))
			one.Leases.TTL = time.Duration(ttl)
		}
		one.Casts = []cast.KindCount{{
			Kind: rapid.SampledFrom([]string{"gather", "send"}).Draw(t, "kind"), Complete: 1, RanksAsked: 4,
		}}
		if rapid.Bool().Draw(t, "gateway") {
			one.Gateway.Requests = map[string]uint64{name.Draw(t, "outcome"): 1}
			one.Execs = map[string]uint64{name.Draw(t, "outcome"): 1}
			one.Detections = map[string]TimeTotal{name.Draw(t, "verdict"): {Count: 1, Sum: time.Second}}
		}
		m = m.Add(Metrics{Meshes: []MeshMetrics{one}})
	}
	return m
}

func TestMetrics_addInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawMetrics(t), drawMetrics(t), drawMetrics(t)
		require.Equal(t, a.Add(b), b.Add(a))
		require.Equal(t, a.Add(b).Add(c), a.Add(b.Add(c)))
		require.Equal(t, len(a.Meshes), len(a.Add(a).Meshes), "one entry for each mesh")
	})
}

func TestMetrics_meanOfSumWeighsSamples(t *testing.T) {
	t.Parallel()
	sum := addTiming(actor.Timing{Samples: 1, Mean: 4, Max: 4}, actor.Timing{Samples: 3, Mean: 8 * time.Nanosecond, Max: 9})
	require.Equal(t, actor.Timing{Samples: 4, Mean: 7, Max: 9}, sum)
}

func TestMetrics_leaseThatEndsFirstIsShown(t *testing.T) {
	t.Parallel()
	none := LeaseMetrics{Expired: 1}
	long := LeaseMetrics{Remaining: 9, TTL: 10, RenewalFailures: 2}
	overdue := LeaseMetrics{Remaining: -1, TTL: 30}
	require.Equal(t, LeaseMetrics{Remaining: 9, TTL: 10, RenewalFailures: 2, Expired: 1}, none.add(long))
	require.Equal(t, LeaseMetrics{Remaining: -1, TTL: 30, RenewalFailures: 2}, long.add(overdue))
}
