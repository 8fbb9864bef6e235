package top

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTop_ratesArePerGenerationAndSkipSilentProcs(t *testing.T) {
	at, tp := time.Now(), &Sampler{}
	look := func(after time.Duration, procs ...Proc) []Proc {
		l := Sample{At: at.Add(after), Procs: procs}
		tp.computeRates(&l)
		return l.Procs
	}
	look(0, Proc{Mesh: "m", Handled: 10}, Proc{Mesh: "m", Rank: 1, Handled: 10}, Proc{Mesh: "m", Rank: 2, Silent: true})
	got := look(2*time.Second, Proc{Mesh: "m", Handled: 30}, Proc{Mesh: "m", Rank: 1, Gen: 1, Handled: 90}, Proc{Mesh: "m", Rank: 2, Handled: 50})
	require.Equal(t, []float64{10, 0, 0}, []float64{got[0].Rate, got[1].Rate, got[2].Rate})
}
