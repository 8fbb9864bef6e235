package host

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
)

// stuckRunner runs procs that end only when the test lets them.
type stuckRunner struct {
	runner
	asked chan *fakeProcess
	let   chan struct{}
}

func (r *stuckRunner) start(context.Context, agent.Bootstrap, launchSpec) (process, error) {
	return &stuckProcess{fakeProcess{localProc: localProc{graceExpired: make(chan struct{})},
		done: r.let}, r.asked}, nil
}

// stuckProcess survives SIGKILL, like a process in an uninterruptible sleep.
type stuckProcess struct {
	fakeProcess
	asked chan *fakeProcess
}

func (p *stuckProcess) Terminate(time.Duration) {
	p.once.Do(func() {
		p.asked <- &p.fakeProcess
		close(p.graceExpired)
	})
}

func TestStop_unkillableProcessDelaysNoneAndIsReported_HOST5(t *testing.T) {
	c := &keys.Config{}
	require.NoError(t, keys.TerminateKillWait.Set(c, 100*time.Millisecond))
	run := &stuckRunner{newLocalRunner(Options{}), make(chan *fakeProcess, 3), make(chan struct{})}
	host, m := startAgent(t, params{runner: run, opts: Options{Config: c, MaxStops: 1, Label: "a"}}, 3)
	_, err := agent.Create.Call(t.Context(), host, agent.CreateRequest{Procs: &m, Wait: true})
	require.NoError(t, err)
	sum, err := agent.StopAll.Call(t.Context(), host,
		agent.StopAllRequest{Reason: "enough", Grace: time.Millisecond})
	require.NoError(t, err)
	require.Len(t, run.asked, 3, "one at a time, and each")
	left, ok := errors.AsType[*agent.NotEndedError](sum.Err())
	require.True(t, ok)
	require.Equal(t, []int{3, 0, 3}, []int{left.Requested, left.Ended, len(left.Remaining)})
	for rank, s := range left.Remaining {
		require.Equal(t, rank, s.Rank)
		require.Equal(t, agent.Status{Phase: agent.ShuttingDown, Reason: "enough"}, s.Status)
		require.True(t, s.Proc.GraceExpired)
	}
	require.ErrorContains(t, left, "pid 7: it survives SIGKILL")
	close(run.let)
	_, err = agent.Wait.Call(t.Context(), host, agent.UntilEnded(m.ID.String()))
	require.NoError(t, err)
}

// killedRunner kills its procs before the host agent learns that their grace is over.
type killedRunner struct{ runner }

func (r killedRunner) start(context.Context, agent.Bootstrap, launchSpec) (process, error) {
	return &killedProcess{fakeProcess{localProc: localProc{graceExpired: make(chan struct{})},
		done: make(chan struct{})}}, nil
}

type killedProcess struct{ fakeProcess }

func (p *killedProcess) Terminate(time.Duration) {
	p.once.Do(func() {
		p.exit = launch.Exit{Code: -1, Signal: int(syscall.SIGKILL), At: time.Now().Add(-time.Minute)}
		close(p.graceExpired)
		close(p.done)
	})
}

func (p *killedProcess) Exit() launch.Exit { return p.exit }

func TestEvents_carryTheTimeOfTheChange_HOST5(t *testing.T) {
	p, m := startAgentProc(t, params{runner: killedRunner{newLocalRunner(Options{})}}, 1)
	host := agent.Of(p.ID()).Via(p)
	events := make(chan actor.Event, 8)
	defer p.Observe(func(e actor.Event) {
		if e.Kind == actor.KindProc {
			events <- e
		}
	})()
	_, err := agent.Create.Call(t.Context(), host, agent.CreateRequest{Procs: &m, Wait: true})
	require.NoError(t, err)
	_, err = agent.Stop.Call(t.Context(), host, agent.StopRequest{ID: m.ID.String(), Grace: time.Second})
	require.NoError(t, err)
	var late, end actor.Event
	for end.Step != "proc.exit.signal" {
		if end = <-events; end.Step == "proc.stop.timeout" {
			late = end
		}
	}
	require.NotEmpty(t, late.Step)
	require.False(t, end.At.Before(late.At), "the exit at %s, the end of the grace at %s", end.At, late.At)
}

// gracedRunner runs procs that end when they are asked, and keeps the grace of the request.
type gracedRunner struct {
	killedRunner
	grace chan time.Duration
}

func (r gracedRunner) start(ctx context.Context, b agent.Bootstrap, s launchSpec) (process, error) {
	p, err := r.killedRunner.start(ctx, b, s)
	return gracedProcess{p, r.grace}, err
}

type gracedProcess struct {
	process
	grace chan time.Duration
}

func (p gracedProcess) Terminate(grace time.Duration) {
	p.grace <- grace
	p.process.Terminate(grace)
}

func TestClose_givesProcsTheConfiguredGrace_HOST5(t *testing.T) {
	c := &keys.Config{}
	require.NoError(t, keys.TerminateGrace.Set(c, 20*time.Second))
	run := gracedRunner{killedRunner{newLocalRunner(Options{})}, make(chan time.Duration, 1)}
	for _, left := range []time.Duration{time.Hour, 8 * time.Second} {
		by := time.Now().Add(left)
		deadline := &atomic.Pointer[time.Time]{}
		deadline.Store(&by)
		p, m := startAgentProc(t, params{runner: run, opts: Options{Config: c}, closeBy: deadline}, 1)
		create := agent.CreateRequest{Procs: &m, Wait: true}
		_, err := agent.Create.Call(t.Context(), agent.Of(p.ID()).Via(p), create)
		require.NoError(t, err)
		<-p.StopActor(agent.Name, "its host stops")
		if grace := <-run.grace; left == time.Hour {
			require.Equal(t, 20*time.Second, grace)
		} else {
			require.LessOrEqual(t, grace, 6*time.Second)
		}
	}
}

// askedRunner runs procs that the test ends after a request.
type askedRunner struct {
	runner
	asked chan *fakeProcess
}

func (r askedRunner) start(context.Context, agent.Bootstrap, launchSpec) (process, error) {
	return &askedProcess{fakeProcess{localProc: localProc{graceExpired: make(chan struct{})},
		done: make(chan struct{})}, r.asked}, nil
}

type askedProcess struct {
	fakeProcess
	asked chan *fakeProcess
}

func (p *askedProcess) Terminate(time.Duration) { p.once.Do(func() { p.asked <- &p.fakeProcess }) }

func TestStopAll_hasTheConcurrencyOfTheCaller_HOST5(t *testing.T) {
	run := askedRunner{newLocalRunner(Options{}), make(chan *fakeProcess, 4)}
	host, m := startAgent(t, params{runner: run, opts: Options{MaxStops: 4, Label: "a"}}, 4)
	_, err := agent.Create.Call(t.Context(), host, agent.CreateRequest{Procs: &m, Wait: true})
	require.NoError(t, err)
	_, err = agent.StopAll.Call(t.Context(), host, agent.StopAllRequest{MaxConcurrent: 257})
	require.ErrorContains(t, err, "257 concurrent stops: want 1 to 256")
	require.Empty(t, run.asked, "nothing is stopped")
	stopped, waiting := make(chan error, 1), 2
	go func() {
		_, err := agent.StopAll.Call(t.Context(), host, agent.StopAllRequest{MaxConcurrent: 2})
		stopped <- err
	}()
	for under := []*fakeProcess{<-run.asked, <-run.asked}; len(under) > 0; under = under[1:] {
		_, err := agent.Ping.Call(t.Context(), host, actor.None{})
		require.NoError(t, err)
		require.Empty(t, run.asked, "the others wait for their turn")
		close(under[0].done)
		if waiting > 0 {
			waiting--
			under = append(under, <-run.asked)
		}
	}
	require.NoError(t, <-stopped)
}
