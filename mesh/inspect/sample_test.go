package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
)

func TestTop_ratesArePerGenerationAndSkipSilentProcs(t *testing.T) {
	at, tp := time.Now(), &Sampler{}
	look := func(after time.Duration, procs ...ProcCounters) []ProcCounters {
		l := Sample{At: at.Add(after), Procs: procs}
		tp.computeRates(&l)
		return l.Procs
	}
	handled := func(n uint64) Counters { return Counters{Handled: n} }
	look(0, ProcCounters{Mesh: "m", Counters: handled(10), CPUTime: time.Second},
		ProcCounters{Mesh: "m", Rank: 1, Counters: handled(10), CPUTime: time.Second},
		ProcCounters{Mesh: "m", Rank: 2, Silent: true, CPUTime: time.Second})
	got := look(2*time.Second, ProcCounters{Mesh: "m", Counters: handled(30), CPUTime: 4 * time.Second},
		ProcCounters{Mesh: "m", Rank: 1, Gen: 1, Counters: handled(90), CPUTime: 2 * time.Second},
		ProcCounters{Mesh: "m", Rank: 2, Counters: handled(50), CPUTime: 2 * time.Second})
	require.Equal(t, []float64{10, 0, 0}, []float64{got[0].Rate, got[1].Rate, got[2].Rate})
	require.Equal(t, []float64{150, 0, 50}, []float64{got[0].CPU, got[1].CPU, got[2].CPU},
		"a silent proc uses CPUs, too")
}

func TestSort_putsSilentHostsFirstAndThenTheLargest(t *testing.T) {
	l := Sample{Hosts: []HostCounters{{Host: "b", State: agent.HostAlive}, {Host: "c"}, {Host: "a", State: agent.HostAlive}}}
	values := []Counters{{Rate: 3}, {CPU: 3}, {Memory: 3}, {Queued: 3}, {Handled: 3}}
	for i, c := range values {
		l.Procs = append(l.Procs, ProcCounters{Mesh: "m", Rank: 9 - i, Counters: c})
	}
	for i, key := range SortKeys() {
		l.Sort(key)
		require.Equal(t, "c", l.Hosts[0].Host)
		if key != "name" {
			require.Equal(t, 9-i, l.Procs[0].Rank, key)
			continue
		}
		require.Equal(t, "a", l.Hosts[1].Host)
		require.Equal(t, 5, l.Procs[0].Rank)
	}
}
