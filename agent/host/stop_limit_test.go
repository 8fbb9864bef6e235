package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
)

// newStopping is a host with running procs. The test ends them after a request.
func newStopping(t *testing.T, procs int, ownerDelay time.Duration) *owned {
	t.Helper()
	r := newOwned(t, Options{Config: &keys.Config{}}, procs, ownerDelay)
	_, err := agent.Create.Call(t.Context(), r.host, agent.CreateRequest{Procs: &r.mesh, Gen: 1, Wait: true})
	require.NoError(t, err)
	return r
}

// drainBy begins a drain with a limit.
func (r *owned) drainBy(t *testing.T, atOnce int) <-chan agent.StopSummary {
	t.Helper()
	return inBackground(t, time.Hour, func(ctx context.Context) (agent.StopSummary, error) {
		return agent.Drain.Call(ctx, r.host, agent.DrainRequest{Grace: time.Minute, MaxConcurrent: atOnce})
	})
}

func (r *owned) stopAll(t *testing.T, within time.Duration, atOnce int) <-chan agent.StopSummary {
	t.Helper()
	return inBackground(t, within, func(ctx context.Context) (agent.StopSummary, error) {
		return agent.StopAll.Call(ctx, r.host, agent.StopAllRequest{Grace: time.Minute, MaxConcurrent: atOnce})
	})
}

// attach sets the host's own limit.
func (r *owned) attach(t *testing.T, atOnce int) {
	t.Helper()
	var c keys.Config
	require.NoError(t, keys.TerminateConcurrency.Set(&c, atOnce))
	_, err := agent.Attach.Call(t.Context(), r.host, c.Snapshot())
	require.NoError(t, err)
	synctest.Wait()
}

// endOneByOne ends procs. Only one is asked at a time.
func (r *owned) endOneByOne(t *testing.T, procs int) {
	t.Helper()
	for range procs {
		next := soon(t, r.asked)
		synctest.Wait()
		require.Empty(t, r.asked, "one at a time")
		close(next.done)
	}
}

func TestDrain_hasItsLimitUntilItsProcsHaveEnded_HOST16(t *testing.T) {
	const procs, moving = 4, 30 * time.Second // the owner takes that long
	for name, meanwhile := range map[string]func(*testing.T, *owned){
		"a program attaches": func(t *testing.T, r *owned) { r.attach(t, 16) },
		"another drain ends": func(t *testing.T, r *owned) {
			_, err := agent.Drain.Call(t.Context(), r.host, agent.DrainRequest{Mesh: "none", MaxConcurrent: 1})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) {
				r := newStopping(t, procs, moving)
				result := r.drainBy(t, 1)
				meanwhile(t, r)
				r.endOneByOne(t, procs)
				require.Equal(t, agent.StopSummary{Requested: procs, Ended: procs}, soon(t, result))
			})
		})
	}
}

func TestStopAll_keepsItsLimitWhenItsCallerHasGone_HOST5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		const procs = 4
		r := newStopping(t, procs, 0)
		done := soon(t, r.stopAll(t, 5*time.Second, 1))
		require.Len(t, done.Remaining, procs)
		synctest.Wait()
		select {
		case <-r.left:
			require.Fail(t, "the host left before the grace of its procs")
		default:
		}
		r.endOneByOne(t, procs)
		<-r.left
	})
}

func TestStopAll_raisesTheLimitOfADrain_HOST5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		const procs = 4
		r := newStopping(t, procs, 0)
		drained := r.drainBy(t, 1)
		require.Len(t, r.asked, 1)
		ended := r.stopAll(t, time.Hour, procs)
		require.Len(t, r.asked, procs, "all at once")
		for range procs {
			close(soon(t, r.asked).done)
		}
		require.Equal(t, agent.StopSummary{Requested: procs, Ended: procs}, soon(t, ended))
		require.Equal(t, agent.StopSummary{Requested: procs, Ended: procs}, soon(t, drained))
	})
}

func TestStop_changedLimitHoldsForQueuedStops_HOST5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newStopping(t, 4, 0)
		r.attach(t, 1)
		stopped := inBackground(t, time.Hour, func(ctx context.Context) (agent.Overlay, error) {
			return agent.Stop.Call(ctx, r.host, agent.StopRequest{ID: r.mesh.ID.String(), Grace: time.Minute})
		})
		require.Len(t, r.asked, 1)
		r.attach(t, 3)
		require.Len(t, r.asked, 3, "a higher limit holds at once")
		r.attach(t, 1)
		for range 2 {
			close(soon(t, r.asked).done)
		}
		synctest.Wait()
		require.Len(t, r.asked, 1, "one still ends")
		r.endOneByOne(t, 2)
		soon(t, stopped)
	})
}
