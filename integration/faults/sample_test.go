package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/history"
)

// Variables for the number of runs.
const (
	runsVariable = "FAULTS_RUNS" // so many runs of each fault but the long ones, or "full"
	seedVariable = "FAULTS_SEED" // the seed of the first run; the next ones have the next numbers
)

// fault is a fault and the number of its runs.
type fault struct {
	name   string
	sample int // runs by default; 0: none
	full   int // often or seldom
}

// Runs in full: often, or seldom for a run of more than ten seconds.
const (
	often  = 200
	seldom = 30
)

// figures are the results of the runs of one fault.
type figures struct {
	fault
	runs    int
	verdict history.Verdict
	order   []string // of the figures below, as they were first given
	counts  map[string]int
	musts   []string // counts that must not be zero over all runs
	samples map[string][]float64
}

// count adds to a figure of the fault's own.
func (f *figures) count(name string, n int) {
	f.named(name)
	f.counts[name] += n
}

// must counts a required figure. A single run may lack it: perhaps the busy machine sent nothing
// during the fault.
func (f *figures) must(name string, n int) {
	if !slices.Contains(f.musts, name) {
		f.musts = append(f.musts, name)
	}
	f.count(name, n)
}

// time records a duration.
func (f *figures) time(name string, d time.Duration) { f.sample(name+" ms", d.Seconds()*1000) }

// sample adds a value to a printed distribution.
func (f *figures) sample(name string, v float64) {
	f.named(name)
	f.samples[name] = append(f.samples[name], v)
}

func (f *figures) named(name string) {
	if !slices.Contains(f.order, name) {
		f.order = append(f.order, name)
	}
}

// judge adds a verdict, and fails the run if it has findings.
func (f *figures) judge(t *testing.T, v history.Verdict) {
	t.Helper()
	f.verdict = f.verdict.Plus(v)
	require.Zero(t, v.Wrong(), "%v\n%s", v, strings.Join(v.Examples, "\n"))
	require.NotZero(t, v.Handled, "nothing was handled, so nothing was shown")
}

func (f *figures) String() string {
	s := fmt.Sprintf("%s: %v", f.name, f.verdict)
	if f.verdict.Sent == 0 { // it is not about messages
		s = f.name + ":"
	}
	for i, name := range f.order {
		if i > 0 || f.verdict.Sent > 0 {
			s += ","
		}
		all := f.samples[name]
		switch n := len(all); {
		case n == 0:
			s += fmt.Sprintf(" %s=%d", name, f.counts[name])
		case n == 1:
			s += fmt.Sprintf(" %s=%.0f", name, all[0])
		default:
			slices.Sort(all)
			s += fmt.Sprintf(" %s p50=%.0f p99=%.0f max=%.0f", name, all[n/2], all[n*99/100], all[n-1])
		}
	}
	return s + fmt.Sprintf(" (n=%d runs)", f.runs)
}

// try runs a fault as often as requested, each run with a seed of its own in a world of its own,
// and prints one line for all.
func try(t *testing.T, f fault, run func(t *testing.T, seed uint64, f *figures)) {
	t.Helper()
	n, first := f.sample, uint64(1)
	switch text := os.Getenv(runsVariable); text {
	case "":
	case "full":
		n = f.full
	default:
		many, err := strconv.Atoi(text)
		require.NoError(t, err, runsVariable)
		if f.full == often {
			n = many
		}
	}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		first, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	if n == 0 {
		t.Logf("%s is not in the sample: %s=full runs it", f.name, runsVariable)
		return
	}
	sum := &figures{fault: f, counts: map[string]int{}, samples: map[string][]float64{}}
	for i := range uint64(n) {
		t.Run(fmt.Sprintf("%s seed=%d", f.name, first+i), func(t *testing.T) {
			sum.runs++
			run(t, first+i, sum)
		})
	}
	if sum.runs > 0 { // else others were picked
		fmt.Println(sum)
		for _, name := range sum.musts {
			require.NotZero(t, sum.counts[name], "%s: nothing was %s in any run, so nothing was shown", f.name, name)
		}
	}
}
