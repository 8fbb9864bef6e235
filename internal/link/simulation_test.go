package link

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// A failing seed prints how to run it again.
var (
	seedFlag  = flag.Uint64("link.seed", 0, "run this seed of the simulation alone, and print all that happens")
	seedsFlag = flag.Uint64("link.seeds", 0,
		"how many seeds of the simulation are run; 0: all of them in the long series, else a part")
	mutantFlag = flag.String("link.mutant", "", "run this mutant alone; with link.seed, print all that happens")
)

// seeds is the number of seeds.
func seeds(all uint64) uint64 {
	switch {
	case *seedsFlag != 0:
		return *seedsFlag
	case !testkit.Long():
		return all / 100
	case raced:
		return all / 10
	}
	return all
}

// processIDs are those of n processes.
func processIDs(t testing.TB, n int) []subjects.ProcessID {
	t.Helper()
	ids := make([]subjects.ProcessID, n)
	for i := range ids {
		id, err := subjects.ParseProcessID("peers-0123456789abc_" + strconv.Itoa(i) + "-0")
		require.NoError(t, err)
		ids[i] = id
	}
	return ids
}

// maxProcs bounds the processes of a world, next incarnations included.
const maxProcs = 6

// simulateAll runs n seeds on all processors, until one fails or a mutant dies. The first is 1, or
// follows the seeds that the mutant skips. It returns the first failed seed and its violation.
func simulateAll(t *testing.T, n uint64, m *mutant) (all counts, seed uint64, failed string) {
	ids := processIDs(t, maxProcs)
	var next atomic.Uint64
	if m != nil {
		next.Store(m.skip)
	}
	last := next.Load() + n
	var mu sync.Mutex // guards all, seed and failed
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var own counts
			for {
				s := next.Add(1)
				mu.Lock()
				over := failed != ""
				mu.Unlock()
				if s > last || over {
					break
				}
				if f := simulate(s, ids, m, &own, nil); f != "" {
					mu.Lock()
					if failed == "" || s < seed {
						seed, failed = s, f
					}
					mu.Unlock()
				}
			}
			mu.Lock()
			all.add(&own)
			mu.Unlock()
		})
	}
	wg.Wait()
	return all, seed, failed
}

// add sums all figures, field by field.
func (n *counts) add(more *counts) {
	to, from := reflect.ValueOf(n).Elem(), reflect.ValueOf(more).Elem()
	for i := range to.NumField() {
		switch f := to.Field(i); f.Kind() {
		case reflect.Array:
			for j := range f.Len() {
				f.Index(j).SetUint(f.Index(j).Uint() + from.Field(i).Index(j).Uint())
			}
		case reflect.Int64:
			f.SetInt(f.Int() + from.Field(i).Int())
		default:
			f.SetUint(f.Uint() + from.Field(i).Uint())
		}
	}
}

func TestSimulation_randomFaultsBreakNoPromise(t *testing.T) { // DEL-6
	if *seedFlag != 0 && *mutantFlag == "" {
		require.Empty(t, simulate(*seedFlag, processIDs(t, maxProcs), nil, &counts{}, os.Stdout))
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began := time.Now()
	n, seed, failed := simulateAll(t, seeds(100_000), nil)
	if failed != "" {
		t.Fatalf("seed %d: %s\nto see it happen: go test -run TestSimulation ./internal/link -link.seed=%d",
			seed, failed, seed)
	}
	t.Logf("%d seeds, %d events, %.0f hours of virtual time in %.1f s", n.Seeds, n.Steps, n.Virtual.Hours(),
		time.Since(began).Seconds())
	n.report(t)
	require.Zero(t, n.Short, "runs of less than %d events", minSteps)
	for kind, times := range n.Faults {
		require.NotZero(t, times, "no run had the fault %q", faultNames[kind])
	}
	require.NotZero(t, n.Unlooked, "no member was synced")
	require.NotZero(t, n.Shared, "no members shared a part")
	require.NotZero(t, n.Forgotten, "no process was forgotten")
	require.NotZero(t, n.Reached, "no answer stood for an acknowledgement")
	for _, reason := range []Reason{Refused, Expired, NoProcess, Dead, LinkReset, LinksClosed} {
		require.NotZero(t, n.Fates[reason], "no fate with reason %d", reason)
	}
}

// report prints a line for each promise.
func (n *counts) report(t *testing.T) {
	t.Logf("DEL-1 fates: %d messages of who lived to the end, each exactly one: %d delivered, and all of "+
		"these are there; others: %d undeliverable, %d indeterminate, told in time",
		n.Sent, n.Delivered, n.Undeliverable, n.Indeterminate)
	t.Logf("DEL-2 false fates: 0 of %d Undeliverable ones", n.Undeliverable)
	t.Logf("DEL-3 out of order: 0 of %d messages in mailboxes", n.Entered)
	t.Logf("DEL-3 duplicates: 0 of %d, while %d packets came twice", n.Entered, n.Duplicates)
	t.Logf("DEL-5 messages of dead or other incarnations: 0, while %d packets of the dead came", n.Fenced)
	t.Logf("DEL-6 bounds: 0 violations in %d audits, %d sends refused for want of room, %d packets dropped "+
		"for it", n.Audits, n.NotSent[QueueFull], n.Overrun)
	t.Logf("DEL-6 deadlocks: 0 links unsettled, 0 of %d waits for room and 0 of %d barriers for ever",
		n.Woken, n.Barriers)
	t.Logf("DEL-5 refusals: %d, all reported", n.Refused)
	t.Logf("LINK-7 casts: %d, a fate for each member, %d of which were in step, and %d acknowledged by their "+
		"answers; %d parts for several", n.Casts, n.Unlooked, n.Reached, n.Shared)
	t.Logf("%d packets, %d sent again, %d gaps, %d beats, %d pieces, %d links broken, %d peers forgotten",
		n.Published, n.Retransmitted, n.Gaps, n.Beats, n.Pieces, n.Broken, n.Forgotten)
	var faults []string
	for kind, times := range n.Faults {
		faults = append(faults, fmt.Sprintf("%s %d", faultNames[kind], times))
	}
	t.Logf("faults: %s", strings.Join(faults, ", "))
}

func TestSimulation_detectsEachMutant(t *testing.T) {
	if *seedFlag != 0 && *mutantFlag == "" {
		t.Skip("one seed is run")
	}
	if raced {
		t.Skip("there is one goroutine; the run without the race detector has them")
	}
	killed, all := 0, mutants()
	for i := range all {
		m := &all[i]
		if *mutantFlag != "" && *mutantFlag != m.name {
			continue
		}
		if *seedFlag != 0 {
			t.Log(simulate(*seedFlag, processIDs(t, maxProcs), m, &counts{}, os.Stdout))
			return
		}
		_, seed, failed := simulateAll(t, 10_000, m)
		if failed == "" {
			t.Errorf("no check notices that %s", m.name)
			continue
		}
		killed++
		t.Logf("%s: seed %d, %s", m.name, seed, failed)
	}
	t.Logf("mutants killed %d/%d", killed, len(all))
}
