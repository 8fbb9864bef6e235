package inspect

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

func TestAskEach_asksABoundedNumberAtATime_INS1(t *testing.T) {
	var now, most, all atomic.Int64
	release := make(chan struct{})
	askEach(make([]int, 3*maxConcurrentQueries), func(int, int) {
		most.Store(max(most.Load(), now.Add(1)))
		if all.Add(1) == maxConcurrentQueries {
			close(release)
		}
		<-release
		now.Add(-1)
	})
	require.LessOrEqual(t, most.Load(), int64(maxConcurrentQueries))
	require.EqualValues(t, 3*maxConcurrentQueries, all.Load(), "all are asked")
}

func TestView_ownersReportOverridesThatOfHosts_INS3(t *testing.T) {
	id, err := subjects.ParseMeshID("demo-0000000000000")
	require.NoError(t, err)
	host, err := subjects.ParseHostID("a-0000000000000")
	require.NoError(t, err)
	desc := agent.Mesh{ID: id, Extent: shape.Of("gpu", 2), PerHost: 2, Hosts: []subjects.HostID{host}}
	w := inspection{
		desc: desc, liveHosts: []subjects.HostID{host},
		states: newestStates([]agent.State{
			{Rank: 0, Gen: 1, Status: agent.Status{Phase: agent.Running}},
			{Rank: 0, Status: agent.Status{Phase: agent.Failed}},
			{Rank: 1, Status: agent.Status{Phase: agent.Running}},
		}),
		ownerErr: actor.ErrNoProc,
	}
	require.Equal(t, []StatusRun{{Region: "*", Ranks: 2, Status: "running"}}, w.view().Statuses,
		"the newest generation counts")
	w.ownerErr = nil
	w.report = controller.Report{Procs: desc,
		Statuses: agent.OverlayOf(map[int]agent.Status{1: {Phase: agent.Failed, Reason: "hung"}})}
	require.Equal(t, []StatusRun{
		{Region: "gpu=0", Ranks: 1, Status: "running"},
		{Region: "gpu=1", Ranks: 1, Status: "failed", Reason: "hung"},
	}, w.view().Statuses)
}

func TestGroupRanks_coverEveryRankOnce_INS3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := shape.Of("host", 3).With("gpu", 4)
		outcomes := rapid.SliceOfN(rapid.IntRange(0, 3), 12, 12).Draw(t, "outcomes")
		ranks := make([]int, 12)
		for rank := range ranks {
			ranks[rank] = rank
		}
		seen := map[int]int{}
		for _, g := range GroupRanks(base, ranks, func(r int) int { return r },
			func(r int) int { return outcomes[r] }) {
			require.Equal(t, g.Items, g.Ranks)
			require.Equal(t, shape.Describe(base, g.Ranks), g.Region)
			for _, r := range g.Ranks {
				seen[r]++
				require.Equal(t, g.Outcome, outcomes[r])
			}
		}
		require.Len(t, seen, 12)
		for _, n := range seen {
			require.Equal(t, 1, n)
		}
	})
}

// The owner still calls both hosts alive, and the system controller the world live.
func TestExplanation_namesASilentHostAndASilentProcThatTheOwnerHasNotNoticed_INS1(t *testing.T) {
	id, err := subjects.ParseMeshID("demo-0000000000000")
	require.NoError(t, err)
	var hosts []subjects.HostID
	states := map[int]agent.State{}
	for rank, label := range []string{"a", "b"} {
		h, err := subjects.ParseHostID(label + "-0000000000000")
		require.NoError(t, err)
		hosts = append(hosts, h)
		states[rank] = agent.State{Rank: rank, Status: agent.Status{Phase: agent.Running}}
	}
	desc := agent.Mesh{ID: id, Extent: shape.Of("host", 2), PerHost: 1, Hosts: hosts}
	w := inspection{
		desc: desc, liveHosts: hosts, states: states,
		report: controller.Report{Procs: desc, Phase: agent.Running, Hosts: []controller.HostHealth{
			{Host: hosts[0].String(), State: agent.HostAlive}, {Host: hosts[1].String(), State: agent.HostAlive}}},
	}
	require.True(t, w.view().Explanation().Healthy)

	w.silentProcs = []int{0}
	require.Equal(t, "[host=0] running, but its proc does not answer", w.view().Explanation().Causes[0].String())

	w.silentProcs = []int{1} // its host is a cause of its own
	w.liveHosts = hosts[:1]
	w.lastHeard = map[subjects.HostID]time.Time{hosts[1]: time.Now().Add(-12 * time.Second)}
	for _, world := range []*system.WorldState{nil, {Status: system.StatusLive}} {
		w.world = world
		x := w.view().Explanation()
		require.False(t, x.Healthy)
		require.Len(t, x.Causes, 1)
		require.Equal(t, "host b is silent: no answer, last heard 12s ago; it has 1 rank [host=1]", x.Causes[0].String())
		require.Equal(t, []string{"host b is being checked: it is alive or dead within seconds"}, x.Next)
		require.Contains(t, x.Suggestions[0], "check hostd on b")
	}
}
