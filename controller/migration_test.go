package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// More procs than stop at a time, or slow ones, outlast one request. Their next generation must wait.
func TestRestart_awaitsARankThatItsHostStillStops_CTL11(t *testing.T) {
	r := newRig(t, func(h *fakeHost) { h.still = 3 })
	r.spec.RestartPolicy = RestartPolicy{Restart: actor.Transient, MaxRestarts: 1, Backoff: time.Millisecond}
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	one, err := r.spec.Procs.Extent.Region().Single(0)
	require.NoError(t, err)
	id := idOf(t, ref)
	var restarting sync.WaitGroup
	t.Cleanup(restarting.Wait)
	restarting.Go(func() { // it ends with the test: the imaginary rank never runs again
		_, _ = agent.Restart.Call(t.Context(), ref, agent.RestartRequest{ID: id, Region: &one})
	})
	r.hosts[0].await(t, "create", 2)
	require.GreaterOrEqual(t, r.hosts[0].stopCount(), 4, "three times it still stops")
}

// lister is the agent of a proc. It lists its actors after a while.
type lister struct {
	agent.Agent
	after time.Duration
	owner subjects.ActorID
}

func (l lister) Get(ctx *actor.Context, _ agent.GetRequest) ([]agent.State, error) {
	answer := actor.Defer[[]agent.State](ctx)
	state := agent.State{Status: agent.Status{Phase: agent.Running}, Claim: &agent.Claim{Owner: l.owner}}
	ctx.After(l.after, func(*actor.Context) { answer.Reply([]agent.State{state}, nil) })
	return nil, nil
}

func TestRestart_awaitsTheActorsOfASlowProcAndReportsASilentOne_CTL6(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		owner := r.spec.Procs.Owner
		ask := func(after time.Duration) ([]subjects.ActorID, error) {
			typ := actor.NewType[agent.Agent, actor.None]("lister")
			p, _ := r.proc(t, subjects.ProcID{}, typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) {
				return lister{after: after, owner: owner}, nil
			}, agent.Methods()...))
			_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
			require.NoError(t, err)
			return actorOwners(t.Context(), r.p, p.ID(), subjects.ActorID{}, 20*time.Second)
		}
		owners, err := ask(10 * time.Second)
		require.NoError(t, err)
		require.Equal(t, []subjects.ActorID{owner}, owners)
		owners, err = ask(time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, owners)
		ended := testproc.HostID(t, "ended").Proc()
		owners, err = actorOwners(t.Context(), r.p, ended, subjects.ActorID{}, time.Hour)
		require.NoError(t, err)
		require.Empty(t, owners)
	})
}
