package agent_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var (
	initializing = agent.Status{Phase: agent.Initializing}
	running      = agent.Status{Phase: agent.Running}
	stopped      = agent.Status{Phase: agent.Stopped, Reason: "done"}
	failed       = agent.Status{Phase: agent.Failed, Reason: "no luck"}
)

// tableOf has one resource, m, with n ranks from first on.
func tableOf(t require.TestingT, first, n int) *agent.Table {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = first + i
	}
	table := agent.NewTable()
	starts, err := table.Create(agent.ResourceSpec{ID: "m", Hash: "spec", Ranks: ranks,
		Mesh: &agent.Mesh{PerHost: n}})
	require.NoError(t, err)
	require.Len(t, starts, n)
	return table
}

func TestTable_createIsIdempotentAndRefusesConflicts_AGT1(t *testing.T) {
	table := tableOf(t, 4, 2)
	require.True(t, table.Advance("m", 4, running))
	starts, err := table.Create(agent.ResourceSpec{ID: "m", Hash: "spec", Ranks: []int{4, 5}})
	require.NoError(t, err)
	require.Empty(t, starts)
	require.Equal(t, agent.Overlay{{First: 4, Count: 1, Status: running},
		{First: 5, Count: 1, Status: initializing}}, table.Overlay("m"))

	_, err = table.Create(agent.ResourceSpec{ID: "m", Hash: "other", Ranks: []int{0}})
	var conflict *agent.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "m", conflict.ID)
	require.ErrorContains(t, err, "m exists already with another spec")

	next := agent.ResourceSpec{ID: "m", Hash: "other", Ranks: []int{0}, Gen: 1}
	require.True(t, table.Advance("m", 4, agent.Status{Phase: agent.Stopped}))
	_, err = table.Create(next)
	require.ErrorAs(t, err, &conflict, "a rank is alive")
	require.True(t, table.Advance("m", 5, agent.Status{Phase: agent.Failed}))
	starts, err = table.Create(next)
	require.NoError(t, err)
	require.Equal(t, []agent.RankStart{{Rank: 0, Gen: 1}}, starts)
}

func TestStatus_onlyAdvances_AGT3(t *testing.T) {
	phases := []agent.Phase{
		agent.NotExist, agent.Initializing, agent.Running, agent.ShuttingDown, agent.Stopped, agent.Failed,
		agent.Timeout, agent.Unknown,
	}
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(t, 0, 1)
		was, changes := agent.Initializing, uint64(1)
		for _, to := range rapid.SliceOf(rapid.SampledFrom(phases)).Draw(t, "to") {
			moved := table.Advance("m", 0, agent.Status{Phase: to})
			want := !was.Terminal() && to > was && to <= agent.Failed
			require.Equal(t, want, moved, "%s to %s", was, to)
			if moved {
				was, changes = to, changes+1
			}
			s := table.States("m")[0]
			require.Equal(t, was, s.Status.Phase)
			require.Equal(t, changes, s.Revision, "every change counts, nothing else does")
		}
	})
	table := tableOf(t, 0, 1)
	require.False(t, table.Advance("m", 1, running), "no such rank")
	require.False(t, table.Advance("x", 0, running), "no such resource")
}

func TestTable_unknownIDYieldsAnEmptyAnswer_AGT3(t *testing.T) {
	table := tableOf(t, 0, 1)
	require.Empty(t, table.Overlay("x"))
	require.Empty(t, table.States("x"))
	require.Equal(t, agent.Status{}, table.Status("x", 0))
	require.Equal(t, agent.Status{}, table.Status("m", 7))
	var answers []agent.Overlay
	table.Wait(agent.WaitRequest{ID: "x", Until: agent.Running},
		func(o agent.Overlay) { answers = append(answers, o) })()
	require.Equal(t, []agent.Overlay{nil}, answers, "at once, and once")
	table.SetLease("x", time.Time{}, 0)
	table.UpdateState("x", 0, func(*agent.State) { t.Fatal("nothing to describe") })
	table.Remove("x")
}

func TestWait_answersOnceWhenSatisfiedOrCancelled_AGT5(t *testing.T) {
	table := tableOf(t, 0, 3)
	answers := map[string][]agent.Overlay{}
	wait := func(name string, until agent.Phase) func() {
		return table.Wait(agent.WaitRequest{ID: "m", Until: until},
			func(o agent.Overlay) { answers[name] = append(answers[name], o) })
	}
	wait("now", agent.Initializing)
	wait("run", agent.Running)
	giveUp := wait("stop", agent.Stopped)
	require.Len(t, answers, 1)
	table.Advance("m", 0, running)
	table.Advance("m", 1, failed) // past everything
	require.Len(t, answers, 1)
	table.Advance("m", 2, running)
	require.Equal(t, "0+1 running, 1+1 failed: no luck, 2+1 running", text(answers["run"][0]))
	giveUp()
	giveUp()
	table.Advance("m", 0, stopped)
	table.Advance("m", 2, stopped)
	require.Equal(t, "0+1 running, 1+1 failed: no luck, 2+1 running", text(answers["stop"][0]))
	wait("again", agent.Stopped)
	for name, got := range answers {
		require.Len(t, got, 1, name)
	}
}

func TestTable_removeAnswersWaiters(t *testing.T) {
	table := tableOf(t, 0, 1)
	var answers []agent.Overlay
	giveUp := table.Wait(agent.WaitRequest{ID: "m", Until: agent.Running},
		func(o agent.Overlay) { answers = append(answers, o) })
	table.Remove("m")
	giveUp()
	require.Equal(t, []agent.Overlay{{{First: 0, Count: 1, Status: initializing}}}, answers)
	require.Empty(t, table.States(""))
}

func TestTable_statesAreOrderedWithTheMeshOnTheFirst(t *testing.T) {
	table := tableOf(t, 10, 2)
	_, err := table.Create(agent.ResourceSpec{ID: "a", Ranks: []int{3}})
	require.NoError(t, err)
	table.UpdateState("m", 11, func(s *agent.State) { s.Proc = &agent.ProcInfo{PID: 7} })
	var got []string
	for _, s := range table.States("") {
		got = append(got, s.ID)
	}
	require.Equal(t, []string{"a", "m", "m"}, got)
	states := table.States("m")
	require.Equal(t, []int{10, 11}, []int{states[0].Rank, states[1].Rank})
	require.NotNil(t, states[0].Mesh)
	require.Nil(t, states[1].Mesh)
	require.Equal(t, 7, states[1].Proc.PID)
	require.Equal(t, 3, table.CountAlive())
	table.Advance("a", 3, stopped)
	require.Equal(t, 2, table.CountAlive())
}

func TestTable_onlyLiveLeasedResourcesExpire(t *testing.T) {
	table, now := tableOf(t, 0, 1), time.Unix(1000, 0)
	require.Empty(t, table.ExpiredLeases(now.Add(time.Hour)), "no lease")
	table.SetLease("m", now, time.Minute)
	require.Empty(t, table.ExpiredLeases(now.Add(-1)))
	require.Equal(t, []string{"m"}, table.ExpiredLeases(now))
	next, ok := table.NextExpiry()
	require.True(t, ok)
	require.Equal(t, now, next)
	table.SetLease("m", now.Add(time.Minute), time.Minute)
	require.Empty(t, table.ExpiredLeases(now.Add(1)))
	table.Advance("m", 0, failed)
	require.Empty(t, table.ExpiredLeases(now.Add(time.Hour)), "no live resource has a lease")
	_, ok = table.NextExpiry()
	require.False(t, ok)
}

func TestLease_extensionAddsHalfItsTTLOnce_AGT7(t *testing.T) {
	table, now := agent.NewTable(), time.Unix(1000, 0)
	require.False(t, table.ExtendLease("m", now), "there is no such resource")
	_, err := table.Create(agent.ResourceSpec{ID: "m", Ranks: []int{0}})
	require.NoError(t, err)
	require.False(t, table.ExtendLease("m", now), "it has no lease")
	for range 2 { // each renewal counts anew
		table.SetLease("m", now.Add(time.Minute), time.Minute)
		require.Equal(t, now.Add(time.Minute), table.LeaseExpiry("m"))
		require.True(t, table.ExtendLease("m", now))
		require.False(t, table.ExtendLease("m", now))
		require.Equal(t, now.Add(30*time.Second), table.LeaseExpiry("m"))
	}
}

func TestTable_generationBeginsAfterAnEndAndNeverReturns_AGT1(t *testing.T) {
	table := tableOf(t, 0, 2)
	m := agent.ResourceSpec{ID: "m", Hash: "spec", Ranks: []int{0, 1}}
	gen := func(rank int) int { return table.States("m")[rank].Gen }
	m.Gen, m.OnlyRanks = 1, []int{1}
	_, err := table.Create(m)
	require.ErrorContains(t, err, "m rank 1: cannot start generation 1: generation 0 is still initializing: "+
		"stop it first")
	table.Advance("m", 1, failed)
	starts, err := table.Create(m)
	require.NoError(t, err)
	require.Equal(t, []agent.RankStart{{Rank: 1, Gen: 1}}, starts,
		"a failed rank restarts in its requested generation")
	require.Equal(t, []int{0, 1}, []int{gen(0), gen(1)})
	starts, err = table.Create(m)
	require.NoError(t, err)
	require.Empty(t, starts, "the same again changes nothing")

	m.OnlyRanks = []int{2}
	_, err = table.Create(m)
	require.ErrorContains(t, err, "m rank 2: want distinct ranks of this agent")
	m.OnlyRanks = []int{1, 1}
	_, err = table.Create(m)
	require.ErrorContains(t, err, "m rank 1: want distinct ranks of this agent")

	m.Gen, m.OnlyRanks = 0, nil
	table.SetLease("m", time.Now(), 0)
	table.MarkStopping("m")
	table.Advance("m", 0, stopped)
	other := agent.ResourceSpec{ID: "m", Hash: "other", Ranks: []int{0, 1}}
	_, err = table.Create(other)
	require.ErrorContains(t, err, "exists already with another spec", "rank 1 still lives")
	table.Advance("m", 1, stopped)
	starts, err = table.Create(other)
	require.NoError(t, err)
	require.Equal(t, []agent.RankStart{{Rank: 0, Gen: 1}, {Rank: 1, Gen: 2}}, starts)
	starts, err = table.Create(other)
	require.NoError(t, err)
	require.Empty(t, starts)
	table.Advance("m", 0, failed)
	table.Advance("m", 1, failed)
	starts, err = table.Create(other)
	require.NoError(t, err)
	require.Empty(t, starts, "failed ranks stay on record without a stop")
	require.True(t, table.HasSpec("m", "other"))
	require.Empty(t, table.ExpiredLeases(time.Now().Add(time.Hour)), "the lease of those before is not theirs")
	require.False(t, table.HasSpec("m", "spec"))
}

// A wait is answered at the first moment at which a check of all ranks satisfies its condition.
func TestWait_matchesANaiveEvaluation(t *testing.T) {
	held := []agent.Phase{agent.Initializing, agent.Running, agent.ShuttingDown, agent.Stopped, agent.Failed}
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(t, 0, 3)
		w := agent.WaitRequest{ID: "m", Until: rapid.SampledFrom(held).Draw(t, "until"),
			OrFailed: rapid.Bool().Draw(t, "or failed")}
		now := []agent.Phase{agent.Initializing, agent.Initializing, agent.Initializing}
		want := func() bool {
			every := true
			for _, p := range now {
				every = every && (p >= w.Until || p.Terminal())
			}
			return every || w.OrFailed && slices.Contains(now, agent.Failed)
		}
		answered := false
		table.Wait(w, func(agent.Overlay) { answered = true })
		was := want()
		require.Equal(t, was, answered)
		for range 8 {
			rank, to := rapid.IntRange(0, 2).Draw(t, "rank"), rapid.SampledFrom(held).Draw(t, "to")
			if table.Advance("m", rank, agent.Status{Phase: to}) {
				now[rank] = to
			}
			was = was || want()
			require.Equal(t, was, answered, "%+v %v", w, now)
		}
	})
}

func TestProcessState_onlyAdvancesAndStaysTerminal(t *testing.T) {
	all := []agent.ProcessState{agent.ProcessStarting, agent.ProcessStarted, agent.ProcessReady,
		agent.ProcessStopping, agent.ProcessExited, agent.ProcessKilled, agent.ProcessFailed}
	for _, from := range all {
		for _, to := range append(all, agent.ProcessFailed+1) {
			got, ok := from.Advance(to)
			require.Equal(t, !from.Terminal() && to > from && to <= agent.ProcessFailed, ok, "%s to %s", from, to)
			if !ok {
				require.Equal(t, from, got)
			}
		}
	}
	var l agent.ProcessState
	require.NoError(t, l.UnmarshalText([]byte("killed")))
	require.Equal(t, agent.ProcessKilled, l)
	require.ErrorContains(t, l.UnmarshalText([]byte("dead")), `process state "dead": want one of`)
}

func TestStopSummary_countsRanksByOutcome(t *testing.T) {
	a := agent.SummarizeStop([]agent.State{{Status: stopped}, {Status: failed}, {Rank: 7, Status: running}})
	require.Equal(t, agent.StopSummary{Requested: 3, Ended: 2, Failed: 1,
		Remaining: []agent.State{{Rank: 7, Status: running}}}, a)
	require.Equal(t, 6, a.Merge(a).Requested)
	require.Len(t, a.Merge(a).Remaining, 2)
	require.NoError(t, agent.SummarizeStop([]agent.State{{Status: failed}}).Err())
}

func TestStopSummary_namesRanksNotStoppedAndWhy(t *testing.T) {
	stopping := agent.Status{Phase: agent.ShuttingDown, Reason: "enough"}
	sum := agent.SummarizeStop([]agent.State{
		{ID: "m", Status: stopped, Proc: &agent.ProcInfo{PID: 5, GraceExpired: true}},
		{ID: "m", Rank: 1, Status: stopping, Proc: &agent.ProcInfo{PID: 6, GraceExpired: true}},
		{ID: "m", Rank: 2, Status: stopped, Proc: &agent.ProcInfo{PID: 7, Survivors: true}},
		{ID: "m", Rank: 3, Status: stopping},
	})
	require.Equal(t, []int{4, 2, 1, 3}, []int{sum.Requested, sum.Ended, sum.Failed, len(sum.Remaining)})
	left, ok := errors.AsType[*agent.NotEndedError](sum.Err())
	require.True(t, ok)
	require.Equal(t, sum.Remaining, left.Remaining)
	require.EqualError(t, left, "2 of 4 have not ended\n"+
		"  rank 1 of m: "+stopping.String()+", pid 6: it survives SIGKILL\n"+
		"  rank 2 of m: "+stopped.String()+", pid 7: processes that it started survive SIGKILL\n"+
		"  rank 3 of m: "+stopping.String())
	left.Remaining = make([]agent.State, 10)
	require.ErrorContains(t, left, "and 2 more")
}

func TestWait_coversOnlyItsRegion(t *testing.T) {
	table := tableOf(t, 0, 4)
	evens, err := shape.Of("rank", 4).Region().SliceStep("rank", 0, 4, 2)
	require.NoError(t, err)
	w := agent.UntilEnded("m")
	w.Region = &evens
	answered := false
	table.Wait(w, func(agent.Overlay) { answered = true })
	for _, rank := range []int{0, 1, 3} {
		table.Advance("m", rank, stopped)
		require.False(t, answered)
	}
	table.Advance("m", 2, failed)
	require.True(t, answered)
	require.Equal(t, agent.PhaseCount{agent.Stopped: 3, agent.Failed: 1}, table.Phases("m"))
	require.Zero(t, table.Phases("m").Alive())
	require.Equal(t, agent.Stopped, table.Phases("m").LeastAdvanced())
}

func TestTable_revisionChangesExactlyWithItsStates(t *testing.T) {
	table := agent.NewTable()
	last, said := table.Revision(), table.States("")
	for what, do := range []func(){
		func() {
			_, err := table.Create(agent.ResourceSpec{ID: "m", Hash: "h", Ranks: []int{0, 1}, Mesh: &agent.Mesh{},
				Claim: claim(1, "a")})
			require.NoError(t, err)
		},
		func() {
			_, err := table.Create(agent.ResourceSpec{ID: "m", Hash: "h", Ranks: []int{0, 1}, Mesh: &agent.Mesh{},
				Claim: claim(1, "a")})
			require.NoError(t, err)
		},
		func() { table.Advance("m", 0, agent.Status{Phase: agent.Running}) },
		func() { table.Advance("m", 0, agent.Status{Phase: agent.Initializing}) },
		func() { table.UpdateState("m", 0, func(s *agent.State) { s.Proc = &agent.ProcInfo{PID: 7} }) },
		func() { require.NoError(t, table.AcceptClaim("n1", "m", claim(1, "a"), subjects.Sender{})) },
		func() { require.NoError(t, table.AcceptClaim("n1", "m", claim(2, "a"), subjects.Sender{})) },
		func() { require.Error(t, table.AcceptClaim("n1", "m", claim(1, "a"), subjects.Sender{})) },
		func() { table.BeginGeneration("m", 0, 1, "anew") },
		func() { table.Remove("m") },
	} {
		do()
		now := table.States("")
		require.Equal(t, !reflect.DeepEqual(said, now), table.Revision() > last, "step %d", what)
		last, said = table.Revision(), now
	}
}
