package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTop_ratesArePerGenerationAndSkipSilentProcs(t *testing.T) {
	at, tp := time.Now(), &Sampler{}
	look := func(after time.Duration, procs ...ProcCounters) []ProcCounters {
		l := Sample{At: at.Add(after), Procs: procs}
		tp.computeRates(&l)
		return l.Procs
	}
	look(0, ProcCounters{Mesh: "m", Handled: 10}, ProcCounters{Mesh: "m", Rank: 1, Handled: 10},
		ProcCounters{Mesh: "m", Rank: 2, Silent: true})
	got := look(2*time.Second, ProcCounters{Mesh: "m", Handled: 30},
		ProcCounters{Mesh: "m", Rank: 1, Gen: 1, Handled: 90}, ProcCounters{Mesh: "m", Rank: 2, Handled: 50})
	require.Equal(t, []float64{10, 0, 0}, []float64{got[0].Rate, got[1].Rate, got[2].Rate})
}
