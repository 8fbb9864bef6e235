package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
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
		one.Ranks[Running] = 1
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
