package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/testkit"
)

// stayer is the owner of meshes. It moves no rank, and says so after a while.
type stayer struct {
	agent.Agent
	after time.Duration
	asked chan agent.EvacuateRequest
}

var stayerType = actor.NewType[agent.Agent, *stayer]("stayer")

func stayerDef() actor.Def {
	return stayerType.Define(func(_ *actor.Context, s *stayer) (agent.Agent, error) { return s, nil },
		append(agent.Methods(),
			agent.Evacuate.Handle(func(a agent.Agent, ctx *actor.Context, v agent.EvacuateRequest) (
				agent.EvacuateResponse, error) {
				s := a.(*stayer)
				s.asked <- v
				answer := actor.Defer[agent.EvacuateResponse](ctx)
				ctx.After(s.after, func(*actor.Context) { answer.Reply(agent.EvacuateResponse{}, nil) })
				return agent.EvacuateResponse{}, nil
			}))...)
}

// crashRunner runs procs that crash in generation 0. The test ends the others after a request.
type crashRunner struct{ askedRunner }

func (r crashRunner) start(ctx context.Context, b agent.Bootstrap, s launchSpec) (process, error) {
	if b.Gen > 0 {
		return r.askedRunner.start(ctx, b, s)
	}
	p := &crashedProcess{fakeProcess{done: make(chan struct{})}}
	close(p.done)
	return p, nil
}

type crashedProcess struct{ fakeProcess }

func (p *crashedProcess) Exit() launch.Exit { return launch.Exit{Code: 3, At: time.Now()} }

// owned is a host with a mesh. The owner moves no rank.
type owned struct {
	proc  *actor.Proc
	host  actor.Ref[agent.Agent]
	mesh  agent.Mesh
	owner *stayer
	asked chan *fakeProcess // to end
	left  chan struct{}     // closed when the host leaves
}

func newOwned(t *testing.T, o Options, procs int, ownerDelay time.Duration) *owned {
	t.Helper()
	o.Label = "a"
	r := &owned{
		asked: make(chan *fakeProcess, 4), left: make(chan struct{}),
		owner: &stayer{after: ownerDelay, asked: make(chan agent.EvacuateRequest, 4)},
	}
	t.Cleanup(func() { close(r.asked) })
	run := crashRunner{askedRunner{newLocalRunner(Options{}), r.asked}}
	r.proc, r.mesh = startAgentProc(t, params{runner: run, opts: o, onLeft: func() { close(r.left) }}, procs,
		stayerDef())
	r.host = agent.Of(r.proc.ID()).Via(r.proc)
	t.Cleanup(func() {
		go func() {
			for left := range r.asked {
				close(left.done)
			}
		}()
	})
	spec := actor.SpawnSpec{Type: stayerType.Name(), Name: r.mesh.Owner.Name, Params: r.owner}
	_, err := r.proc.Spawn(t.Context(), spec)
	require.NoError(t, err)
	return r
}

// newRestarting is a host with a mesh after the crash of its only rank.
func newRestarting(t *testing.T, ownerDelay, lease time.Duration) *owned {
	t.Helper()
	r := newOwned(t, Options{}, 1, ownerDelay)
	_, err := agent.Create.Call(t.Context(), r.host, agent.CreateRequest{Procs: &r.mesh, Lease: lease})
	require.NoError(t, err)
	o, err := agent.Wait.Call(t.Context(), r.host, agent.UntilEnded(r.mesh.ID.String()))
	require.NoError(t, err)
	require.Equal(t, agent.Failed, o[0].Status.Phase)
	return r
}

// restart starts the rank in its next generation.
func (r *owned) restart(t *testing.T) error {
	t.Helper()
	_, err := agent.Create.Call(testkit.Soon(t), r.host,
		agent.CreateRequest{Procs: &r.mesh, Ranks: []int{0}, Gen: 1, Wait: true})
	return err
}

func (r *owned) cordon(t *testing.T, c agent.CordonRequest) {
	t.Helper()
	_, err := agent.Cordon.Call(t.Context(), r.host, c)
	require.NoError(t, err)
}

// drain drains the host. The result follows.
func (r *owned) drain(t *testing.T) <-chan agent.StopSummary {
	t.Helper()
	return inBackground(t, time.Hour, func(ctx context.Context) (agent.StopSummary, error) {
		return agent.Drain.Call(ctx, r.host, agent.DrainRequest{Reason: "new disks"})
	})
}

// inBackground begins a call. The result follows.
func inBackground[T any](t *testing.T, within time.Duration, call func(context.Context) (T, error)) <-chan T {
	t.Helper()
	result := make(chan T, 1)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	go func() {
		defer cancel()
		done, err := call(ctx)
		if err != nil {
			t.Error(err)
		}
		result <- done
	}()
	synctest.Wait()
	return result
}

// soon receives within a time in which a drain with a hung owner ends.
func soon[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(3 * time.Minute):
		require.FailNow(t, "nothing arrived")
	}
	return v
}

func (r *owned) procs(t *testing.T) int {
	t.Helper()
	info, err := agent.Info.Call(t.Context(), r.host, actor.None{})
	require.NoError(t, err)
	return info.Procs
}

func TestCordon_rankOfAPresentMeshRestartsInPlace(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRestarting(t, 0, 0)
		r.cordon(t, agent.CordonRequest{Cordon: true, Reason: "upgrade"})
		require.NoError(t, r.restart(t))
		require.Equal(t, 1, r.procs(t))
		require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, r.endedDrain(t))
	})
}

// endedDrain drains a host with one proc.
func (r *owned) endedDrain(t *testing.T) agent.StopSummary {
	t.Helper()
	result := r.drain(t)
	close(soon(t, r.asked).done)
	return soon(t, result)
}

func TestDrain_asksTheOwnerOfARankThatWaitsForItsRestart_HOST16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRestarting(t, 0, 0)
		require.Equal(t, agent.StopSummary{}, soon(t, r.drain(t)))
		require.Len(t, r.owner.asked, 1)
		require.Equal(t, agent.EvacuateRequest{Host: r.mesh.Hosts[0], Reason: "new disks"}, soon(t, r.owner.asked))
		require.Equal(t, agent.StopSummary{}, soon(t, r.drain(t)))
		require.Empty(t, r.owner.asked, "the mesh is stopped here")

		r.cordon(t, agent.CordonRequest{Cordon: true, Reason: "upgrade"})
		require.ErrorContains(t, r.restart(t), "host a is cordoned: it takes no new procs (upgrade)")
		require.Zero(t, r.procs(t))
		r.cordon(t, agent.CordonRequest{})
		require.NoError(t, r.restart(t), "it takes procs again")
		require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, r.endedDrain(t))
	})
}

func TestDrain_doesNotAskAboutAnEndedMeshWhoseLeaseRanOut_HOST16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRestarting(t, 0, time.Minute)
		time.Sleep(2 * time.Minute)
		require.Equal(t, agent.StopSummary{}, soon(t, r.drain(t)))
		require.Empty(t, r.owner.asked)
		r.cordon(t, agent.CordonRequest{Cordon: true})
		require.ErrorContains(t, r.restart(t), "is cordoned")
	})
}

func TestDrain_stopsWhatRestartsBeforeAndRefusesWhatRestartsAfter_HOST16(t *testing.T) {
	const patience = 70 * time.Second // of the drain with an owner
	for name, delay := range map[string]time.Duration{"slow owner": 30 * time.Second, "hung owner": time.Hour} {
		t.Run(name, func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) {
				r := newRestarting(t, delay, 0)
				began := time.Now()
				result := r.drain(t)
				require.NoError(t, r.restart(t), "its owner may still move it")
				started := soon(t, r.asked)
				require.Equal(t, min(delay, patience), time.Since(began))
				require.ErrorContains(t, r.restart(t), "host a is draining: it takes no new procs (new disks)")
				close(started.done)
				require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, soon(t, result))
				require.Zero(t, r.procs(t))
			})
		})
	}
}

func TestStopAll_leavingHostRestartsNoRank_HOST5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRestarting(t, 0, 0)
		_, err := agent.StopAll.Call(t.Context(), r.host, agent.StopAllRequest{Reason: "enough"})
		require.NoError(t, err)
		require.ErrorContains(t, r.restart(t), "host a is leaving: it takes no new procs (enough)")
	})
}

// A drain of one mesh awaits the ranks that run. One that starts meanwhile would stay.
func TestDrain_ofOneMeshRefusesItsRanksMeanwhile_HOST16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newOwned(t, Options{}, 2, 0)
		id := r.mesh.ID.String()
		create := func(rank, gen int) error {
			_, err := agent.Create.Call(testkit.Soon(t), r.host,
				agent.CreateRequest{Procs: &r.mesh, Ranks: []int{rank}, Gen: gen, Wait: true})
			return err
		}
		require.NoError(t, create(0, 0))
		_, err := agent.Wait.Call(testkit.Soon(t), r.host, agent.UntilEnded(id))
		require.NoError(t, err)
		require.NoError(t, create(1, 1))
		result := inBackground(t, time.Hour, func(ctx context.Context) (agent.StopSummary, error) {
			return agent.Drain.Call(ctx, r.host, agent.DrainRequest{Mesh: id, Reason: "new disks"})
		})
		running := soon(t, r.asked)
		require.ErrorContains(t, create(0, 1), "host a is draining mesh "+id+": it takes no new procs (new disks)")
		info, err := agent.Info.Call(t.Context(), r.host, actor.None{})
		require.NoError(t, err)
		require.Equal(t, agent.ModeOpen, info.Mode, "for other meshes")
		close(running.done)
		require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, soon(t, result))
		require.NoError(t, create(0, 1), "it takes procs again")
		require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, r.endedDrain(t))
	})
}

// The owner's answer begins another turn, without a message.
func TestDrain_remembersItsCallerWhileTheOwnerMovesRanks_HOST16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newStopping(t, 1, 10*time.Second)
		stops := make(chan string, 1)
		defer r.proc.Observe(func(e actor.Event) {
			if e.Step == "procs.stop.attempt" {
				stops <- e.By
			}
		})()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		done, err := agent.Drain.Call(ctx, r.host, agent.DrainRequest{Grace: time.Minute})
		require.NoError(t, err)
		require.Len(t, done.Remaining, 1)
		require.Equal(t, r.proc.Sender().String(), soon(t, stops))

		mode := func() agent.HostMode {
			synctest.Wait()
			info, err := agent.Info.Call(t.Context(), r.host, actor.None{})
			require.NoError(t, err)
			return info.Mode
		}
		require.Equal(t, agent.ModeDraining, mode(), "its stops go on")
		close(soon(t, r.asked).done)
		require.Equal(t, agent.ModeOpen, mode())
	})
}
