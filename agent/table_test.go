package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
)

var (
	initializing = agent.Status{Phase: agent.Initializing}
	running      = agent.Status{Phase: agent.Running}
	stopped      = agent.Status{Phase: agent.Stopped, Reason: "done"}
	failed       = agent.Status{Phase: agent.Failed, Reason: "no luck"}
)

// tableOf has one resource, m, with so many ranks from first on.
func tableOf(t require.TestingT, first, n int) *agent.Table {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = first + i
	}
	table := agent.NewTable()
	created, err := table.Create("m", "spec", ranks, &agent.Mesh{PerHost: n})
	require.NoError(t, err)
	require.True(t, created)
	return table
}

func TestAGT1_theSameSpecAgainChangesNothingAnotherIsAConflict(t *testing.T) {
	table := tableOf(t, 4, 2)
	require.True(t, table.Advance("m", 4, running))
	created, err := table.Create("m", "spec", []int{4, 5}, nil)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, agent.Overlay{{First: 4, Count: 1, Status: running}, {First: 5, Count: 1, Status: initializing}}, table.Overlay("m"))

	_, err = table.Create("m", "other", []int{0}, nil)
	var conflict *agent.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "m", conflict.ID)
	require.ErrorContains(t, err, "m exists already with another spec")
}

func TestAGT3_aStatusOnlyAdvances(t *testing.T) {
	phases := []agent.Phase{
		agent.NotExist, agent.Initializing, agent.Running, agent.ShuttingDown, agent.Stopped, agent.Failed, agent.Timeout, agent.Unknown,
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
			require.Equal(t, changes, s.Generation, "every change counts, nothing else does")
		}
	})
	table := tableOf(t, 0, 1)
	require.False(t, table.Advance("m", 1, running), "no such rank")
	require.False(t, table.Advance("x", 0, running), "no such resource")
}

func TestAGT4_anUnknownIDIsAnEmptyAnswer(t *testing.T) {
	table := tableOf(t, 0, 1)
	require.Empty(t, table.Overlay("x"))
	require.Empty(t, table.States("x"))
	require.Equal(t, agent.Status{}, table.Status("x", 0))
	require.Equal(t, agent.Status{}, table.Status("m", 7))
	var answers []agent.Overlay
	table.Wait("x", agent.Running, func(o agent.Overlay) { answers = append(answers, o) })()
	require.Equal(t, []agent.Overlay{nil}, answers, "at once, and once")
	table.Keep("x", time.Time{})
	table.Describe("x", 0, func(*agent.State) { t.Fatal("nothing to describe") })
	table.Remove("x")
}

func TestAGT5_aWaitAnswersOnceWhenAllRanksAreThereOrWhenItIsGivenUp(t *testing.T) {
	table := tableOf(t, 0, 3)
	answers := map[string][]agent.Overlay{}
	wait := func(name string, until agent.Phase) func() {
		return table.Wait("m", until, func(o agent.Overlay) { answers[name] = append(answers[name], o) })
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

func TestTable_removeAnswersWhoStillWaits(t *testing.T) {
	table := tableOf(t, 0, 1)
	var answers []agent.Overlay
	giveUp := table.Wait("m", agent.Running, func(o agent.Overlay) { answers = append(answers, o) })
	table.Remove("m")
	giveUp()
	require.Equal(t, []agent.Overlay{{{First: 0, Count: 1, Status: initializing}}}, answers)
	require.Empty(t, table.States(""))
}

func TestTable_statesAreInOrderAndTheMeshIsOnTheFirst(t *testing.T) {
	table := tableOf(t, 10, 2)
	_, err := table.Create("a", "", []int{3}, nil)
	require.NoError(t, err)
	table.Describe("m", 11, func(s *agent.State) { s.Proc = &agent.ProcState{PID: 7} })
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
	require.Equal(t, 3, table.Alive())
	table.Advance("a", 3, stopped)
	require.Equal(t, 2, table.Alive())
}

func TestTable_onlyWhatIsAliveAndWasGivenATimeExpires(t *testing.T) {
	table, now := tableOf(t, 0, 1), time.Unix(1000, 0)
	require.Empty(t, table.Expired(now.Add(time.Hour)), "no lease")
	table.Keep("m", now)
	require.Empty(t, table.Expired(now))
	require.Equal(t, []string{"m"}, table.Expired(now.Add(1)))
	table.Keep("m", now.Add(time.Minute))
	require.Empty(t, table.Expired(now.Add(1)))
	table.Advance("m", 0, failed)
	require.Empty(t, table.Expired(now.Add(time.Hour)), "nothing is left to stop")
}
