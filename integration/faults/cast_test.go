package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// casting is a mesh of workers, and another worker as the caster.
type casting struct {
	*world
	place  cast.Placement
	ranks  []*worker // the processes of the mesh
	caller *worker
}

// meshes returns the meshes for a seed's shape: four processes each.
func (w *world) meshes() *casting {
	w.Helper()
	if w.seed%2 == 0 {
		return w.mesh(2, 2, 1)
	}
	return w.mesh(2, 4, 2)
}

// mesh starts some hosts of some ranks, a few of them in each process, and a caller.
func (w *world) mesh(hosts, perHost, perProcess int) *casting {
	w.Helper()
	id, err := subjects.NewMeshID("mesh")
	require.NoError(w, err)
	c := &casting{world: w, place: cast.Placement{
		Mesh: id, Extent: shape.Of("host", hosts).With("gpu", perHost), PerHost: perHost, PerProcess: perProcess,
	}}
	for rank := 0; rank < hosts*perHost; rank += perProcess {
		c.ranks = append(c.ranks, w.workerIn(fmt.Sprintf("rank-%d", rank), c.place.Proc(rank), &c.place))
	}
	c.caller = w.worker("caller")
	return c
}

// begin makes the caller cast to all of the mesh and to parts of it.
func (c *casting) begin(l load) {
	c.Helper()
	dims := c.place.Extent.Dims()
	l.Casts = &casts{Place: c.place, Parts: []string{
		"*", fmt.Sprintf("host=%d", dims[0].Size-1), "gpu=0", fmt.Sprintf("gpu=1:%d", dims[1].Size), "host=0,gpu=1",
	}}
	c.world.begin(c.caller, l, nil)
}

// of are the ranks in the process of a worker.
func (c *casting) of(one *worker) (ranks []int) {
	for rank := int(one.id.Rank); rank < int(one.id.Rank)+c.place.PerProcess; rank++ {
		ranks = append(ranks, rank)
	}
	return ranks
}

// killWorker ends a process by SIGKILL and records that for each of its ranks.
func (c *casting) killWorker(one *worker) {
	c.Helper()
	c.world.killWorker(one)
	for _, rank := range c.of(one)[1:] {
		end := history.Record{Kind: history.Ended, Stream: history.Stream{To: c.place.Proc(rank).String()}}
		require.NoError(c, c.history.Add(end))
	}
}

// outcomes returns the results of all casts after their end.
func (c *casting) outcomes(f *figures) []castOutcome {
	c.Helper()
	all := slices.DeleteFunc(c.caller.look(c.T).Casts, func(o castOutcome) bool { return o.Way == direct })
	f.count("coverage exact n", len(all)) // the caster has checked each
	for _, o := range all {
		f.count("asked", len(o.Asked))
		f.count("answered", len(o.answered()))
		f.count("failed", len(o.Failed))
		f.count("missing", len(o.Missing))
		f.time("cast", o.Ended.Sub(o.Began))
	}
	return all
}

func TestF14_everyRankAnswersCastsDuringCuts(t *testing.T) {
	t.Parallel()
	try(t, fault{"F14 casts", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		c := newWorld(t, seed, serverConfig{}).meshes()
		c.begin(load{Senders: 2, Messages: 600, Rate: 150, Sizes: []int{100, 5000, 0, 40 << 10, 300 << 10, 700}})
		f.count("cuts", len(c.cutUntil(c.settle(2*patience, c.caller), 0)))
		for _, o := range c.outcomes(f) {
			require.Empty(t, slices.Concat(o.Failed, o.Missing), "no rank has died: %+v", o)
		}
		_, v := c.finish()
		f.judge(t, v)
		require.Zero(t, v.Indeterminate+v.Undeliverable, v)
	})
}

// killing is a run of casts to a mesh. Some processes are killed, and their deaths are reported. No
// rank is missing: no cast waits for a known dead rank until the deadline.
func killing(f *figures, c *casting, kills int) {
	c.Helper()
	c.begin(load{Senders: 3, Messages: 1500, Rate: 300, For: 2500 * time.Millisecond})
	settled := c.settle(2*patience, c.caller)
	dead := map[int]time.Time{} // ranks, and when they were killed at the earliest
	for range kills {
		c.pause(200*time.Millisecond, 700*time.Millisecond)
		i, at := c.rand.IntN(len(c.ranks)), time.Now()
		one := c.ranks[i]
		c.ranks = slices.Delete(c.ranks, i, i+1)
		for _, rank := range c.of(one) {
			dead[rank] = at
		}
		c.killWorker(one)
		c.pause(0, 100*time.Millisecond) // until its host knows
		c.reportDeath(one)
	}
	settled.wait(c.T)
	known := 0
	for _, o := range c.outcomes(f) {
		require.Empty(c, o.Missing, "%+v", o)
		for _, rank := range o.Failed {
			at, died := dead[rank]
			require.True(c, died && o.Ended.After(at), "rank %d lives: %+v", rank, o)
		}
		known += len(o.Known)
	}
	require.NotZero(c, known, "the caller learned of no death, so nothing was shown")
	_, v := c.finish()
	f.judge(c.T, v)
	f.count("kills", kills)
}

func TestF30_castsNameDeadRanksAndAwaitNoOther(t *testing.T) {
	t.Parallel()
	try(t, fault{"F30 killed", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		killing(f, newWorld(t, seed, serverConfig{}).meshes(), 1+int(seed%3))
	})
	// With 18 hosts some fold for others.
	try(t, fault{"F30 killed, of 18 hosts", 0, often}, func(t *testing.T, seed uint64, f *figures) {
		killing(f, newWorld(t, seed, serverConfig{}).mesh(18, 2, 2), 1+int(seed%4))
	})
}

// Connections are cut all the time, and processes killed meanwhile. A cut connection may lose the
// event of a death: then the dead ranks are missing, and no others.
func TestF30_castsAreExactDuringCutsAndKills(t *testing.T) {
	t.Parallel()
	try(t, fault{"F14 F30 cut and killed", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		c := newWorld(t, seed, serverConfig{}).meshes()
		c.begin(load{Senders: 2, Messages: 1500, Rate: 150, For: 2500 * time.Millisecond,
			Deadline: 3 * time.Second})
		settled := c.settle(2*patience, c.caller)
		dead := map[int]time.Time{} // ranks, and when they were killed at the earliest
		var cuts []time.Time
		for range 1 + seed%2 {
			cuts = append(cuts, c.cut(settled, 0)...)
			i, at := c.rand.IntN(len(c.ranks)), time.Now()
			one := c.ranks[i]
			c.ranks = slices.Delete(c.ranks, i, i+1)
			for _, rank := range c.of(one) {
				dead[rank] = at
			}
			c.killWorker(one)
			cuts = append(cuts, c.cut(settled, 0)...)
			c.reportDeath(one)
		}
		for !settled.over() {
			cuts = append(cuts, c.cut(settled, 0)...)
		}
		settled.wait(t)
		for _, o := range c.outcomes(f) {
			for _, rank := range slices.Concat(o.Failed, o.Missing) {
				at, died := dead[rank]
				require.True(t, died && o.Ended.After(at), "rank %d lives: %+v", rank, o)
			}
		}
		_, v := c.finish()
		f.judge(t, v)
		f.count("cuts", len(cuts))
		f.count("kills", int(1+seed%2))
	})
}

// Every other time the process is stopped. Otherwise nothing moves on its connections.
func TestF30_castsNameSilentRanksAtTheDeadline(t *testing.T) {
	t.Parallel()
	const deadline = 3 * time.Second
	try(t, fault{"F30 silent", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		c := newWorld(t, seed, serverConfig{}).meshes()
		c.begin(load{Senders: 3, Messages: 1000, Rate: 50, For: 8 * time.Second, Deadline: deadline})
		settled := c.settle(2*patience, c.caller)
		c.pause(200*time.Millisecond, 500*time.Millisecond)
		one := c.ranks[c.rand.IntN(len(c.ranks))]
		silence, resume := one.stop, func(t *testing.T) { one.signal(t, syscall.SIGCONT) }
		if seed/2%2 == 0 {
			silence, resume = func(*testing.T) { one.proxy.Stall() }, func(*testing.T) { one.proxy.Resume() }
		}
		silence(t)
		began := time.Now()
		time.Sleep(2*deadline + time.Second/2) // the fault itself
		over := time.Now()
		resume(t)
		settled.wait(t)
		c.judgeSilence(f, c.of(one), began, over, deadline)
		_, v := c.finish()
		f.judge(t, v)
	})
}

// The stopped process folds for the others of its host, or for other hosts.
func TestF30_stoppedAggregatorFailsNoOtherRank(t *testing.T) {
	t.Parallel()
	const deadline = 3 * time.Second
	try(t, fault{"F30 folder stopped", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		c := w.meshes()
		if seed%3 == 0 { // so many hosts that some fold for others
			c = w.mesh(18, 2, 2)
		}
		c.begin(load{Senders: 12, Messages: 400, Rate: 100, For: 8 * time.Second, Deadline: deadline})
		settled := c.settle(2*patience, c.caller)
		c.pause(200*time.Millisecond, 500*time.Millisecond)
		one := c.ranks[0]
		one.stop(t)
		began := time.Now()
		time.Sleep(2*deadline + time.Second/2) // the fault itself
		over := time.Now()
		one.signal(t, syscall.SIGCONT)
		settled.wait(t)
		c.judgeSilence(f, c.of(one), began, over, deadline)
		_, v := c.finish()
		f.judge(t, v)
	})
}

// judgeSilence judges casts while some ranks were silent: no other rank is missing.
func (c *casting) judgeSilence(f *figures, silent []int, began, over time.Time, deadline time.Duration) {
	c.Helper()
	within := func(rank int) bool { return slices.Contains(silent, rank) }
	named := 0
	for _, o := range c.outcomes(f) {
		require.Empty(c, o.Failed, "no rank has died: %+v", o)
		for _, rank := range o.Missing {
			require.True(c, within(rank), "rank %d is not silent: %+v", rank, o)
		}
		if o.Way >= posted || o.Began.Before(began) || o.Ended.After(over) {
			continue
		}
		for _, rank := range o.Asked {
			if within(rank) {
				named++
				require.Contains(c, o.Missing, rank, "%+v", o)
			}
		}
		if len(o.Missing) > 0 {
			f.time("late", o.Ended.Sub(o.Began)-deadline)
		}
	}
	require.NotZero(c, named, "no rank was missing, so nothing was shown")
}

// stop stops a child and waits until it is stopped.
func (c *child) stop(t *testing.T) {
	t.Helper()
	c.signal(t, syscall.SIGSTOP)
	require.Eventually(t, func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
		require.NoError(t, err)
		return strings.Contains(string(status), "\nState:\tT")
	}, patience, time.Millisecond)
}
