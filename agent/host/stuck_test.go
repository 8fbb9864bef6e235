package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
)

// stuckRunner runs procs that nothing ends until they are let go.
type stuckRunner struct {
	runner
	asked chan *fakeProcess
	let   chan struct{}
}

func (r *stuckRunner) start(context.Context, agent.Bootstrap, program) (process, error) {
	return &stuckProcess{fakeProcess{localProc: localProc{overdue: make(chan struct{})}, done: r.let}, r.asked}, nil
}

// stuckProcess survives SIGKILL, as one does that sleeps in the kernel.
type stuckProcess struct {
	fakeProcess
	asked chan *fakeProcess
}

func (p *stuckProcess) Terminate(time.Duration) {
	p.once.Do(func() {
		p.asked <- &p.fakeProcess
		close(p.overdue)
	})
}

func TestHOST5_whatSurvivesSIGKILLHoldsUpNobodyAndIsInTheAnswer(t *testing.T) {
	c := &keys.Config{}
	require.NoError(t, keys.TerminateKillWait.Set(c, 100*time.Millisecond))
	run := &stuckRunner{newLocalRunner(Options{}), make(chan *fakeProcess, 3), make(chan struct{})}
	host, m := startAgent(t, config{run: run, opts: Options{Config: c, Stops: 1, Label: "a"}}, 3)
	_, err := agent.Create.Call(t.Context(), host, agent.Creation{Procs: &m, Wait: true})
	require.NoError(t, err)
	sum, err := agent.StopAll.Call(t.Context(), host, agent.StoppingAll{Reason: "enough", Grace: time.Millisecond})
	require.NoError(t, err)
	require.Len(t, run.asked, 3, "one at a time, and each")
	left, ok := errors.AsType[*agent.LeftError](sum.Err())
	require.True(t, ok)
	require.Equal(t, []int{3, 0, 3}, []int{left.Asked, left.Ended, len(left.Left)})
	for rank, s := range left.Left {
		require.Equal(t, rank, s.Rank)
		require.Equal(t, agent.Status{Phase: agent.ShuttingDown, Reason: "enough"}, s.Status)
		require.True(t, s.Proc.Overdue)
	}
	require.ErrorContains(t, left, "pid 7: it survives SIGKILL")
	close(run.let)
	_, err = agent.Wait.Call(t.Context(), host, agent.Ended(m.ID.String()))
	require.NoError(t, err)
}
