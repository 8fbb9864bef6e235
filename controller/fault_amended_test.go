package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
)

func TestFaultAC5_endingControllerTellsSubscribersWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	port := subscribe(t, r.teller(t), ref)
	r.close()
	for range 4 {
		e := testkit.Next(t, port)
		require.Equal(t, "stopped", e.Status)
		require.Contains(t, e.Reason, "its controller is stopping")
	}
}

func TestFaultAC6_goneWatcherIsHarmless(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	elsewhere, leave := r.proc(t, testproc.HostID(t, "teller").Proc(), Def())
	subscribe(t, elsewhere, ref)
	leave()
	r.teller(t).Emit(r.killed(1))
	require.Equal(t, 1, testkit.Next(t, subscribe(t, r.p, ref)).Rank)
	require.Equal(t, agent.Running, wait(t, ref, agent.Running)[0].Status.Phase)
	for _, h := range r.hosts {
		require.Zero(t, h.stopCount())
	}
}

func TestFaultAC7_stateListsEachRankOfTheRegionOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	for _, asked := range []string{"", r.spec.id()} {
		states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{ID: asked})
		require.NoError(t, err)
		require.Len(t, states, 4)
		for rank, s := range states {
			require.Equal(t, rank, s.Rank)
			require.Equal(t, r.spec.id(), s.ID)
		}
	}
}

func TestFaultAC8_failingQueryFailsNoRankAndALostRankFailsOnce_CTL8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease = time.Second
		r.hosts[0].renew = notNow
		r.hosts[1].renew = func() (agent.Overlay, error) { return nil, nil } // it knows no such mesh
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		port := subscribe(t, r.p, ref)
		for _, h := range r.hosts {
			h.await(t, "keepalive 1s", 5)
		}
		const lost = "host b does not have it: hostd has started again"
		require.Equal(t, agent.Overlay{
			{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}},
			{First: 2, Count: 2, Status: agent.Status{Phase: agent.Failed, Reason: lost}},
		}, wait(t, ref, agent.Running))
		for _, rank := range []int{2, 3} {
			require.Equal(t, rank, testkit.Next(t, port).Rank)
			require.Eventually(t, func() bool {
				_, down := r.p.Members().Down(r.spec.Procs.ProcID(rank, 0))
				return down
			}, testkit.Patience, time.Millisecond, "calls to its proc fail")
		}
		r.teller(t).Emit(r.killed(1))
		require.Equal(t, 1, testkit.Next(t, port).Rank, "no earlier event")
	})
}

func TestFaultAC10_actorIsNamedByMeshAndPoint(t *testing.T) {
	s := requireTrace(t, `
actors 2 2 gpu=1:2
	0+2 initializing
`)
	s.st.spec.Name = "trainers"
	s.applyLine("overlay", []string{"0+2", "running"})
	x := s.st.step(s.event("actor", []string{"3", "failed", "counters panicked"}), s.now)
	require.Equal(t, "trainers", x.events[0].Name)
	require.Equal(t, "host=1/2,gpu=1/2", x.events[0].Point)
}

// Meaning of test_orphaned_actors_are_cleaned_up.
func TestOrphans_endWhenTheirLeaseExpires(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		procs := r.join(t, 4, frailDef())
		for _, p := range procs {
			to := agent.Of(p.ID()).Via(r.p)
			spec := frails("orphans")
			spec.Owner = r.p.ID().Actor("nobody")
			_, err := agent.Create.Call(t.Context(), to, agent.CreateRequest{Actors: spec, Wait: true})
			require.NoError(t, err)
			o, err := agent.Keepalive.Call(t.Context(), to, agent.Lease{ID: "orphans", TTL: time.Second})
			require.NoError(t, err)
			require.Equal(t, agent.Running, o[0].Status.Phase)
		}
		for _, p := range procs {
			o, err := agent.Wait.Call(t.Context(), agent.Of(p.ID()).Via(r.p), agent.UntilEnded("orphans"))
			require.NoError(t, err)
			require.Equal(t, agent.Status{Phase: agent.Stopped, Reason: agent.OrphanedReason(time.Second)},
				o[0].Status)
		}
	})
}

func TestController_publishesRankEventsThatNoHostDid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spec.RestartPolicy = RestartPolicy{Restart: actor.Temporary}
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	port, said, teller := subscribe(t, r.p, ref), r.meshSteps(t), r.teller(t)
	died, ended := r.killed(0), r.killed(1)
	died.Step = "proc.exit.signal"
	ended.Step, ended.Status, ended.Signal = "proc.exit.code", "stopped", 0
	teller.Emit(ended)
	require.Equal(t, "proc.exit.code", testkit.Next(t, port).Step)
	teller.Emit(died)
	e := testkit.Next(t, port)
	require.Equal(t, []any{"rank.drop", 0, "failed"}, []any{e.Step, e.Rank, e.Status})
	require.Empty(t, said, "the mesh as a whole goes on")
}

func TestDeadProcs_deathAppliesAfterEarlierReplies_DEL5(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	began, release := make(chan struct{}), make(chan struct{})
	slow := actor.NewType[*struct{}, actor.None]("slow")
	work := actor.NewEndpoint[*struct{}, actor.None, int]("work")
	worker, _ := r.proc(t, r.spec.Procs.ProcID(2, 0), slow.Define(
		func(*actor.Context, actor.None) (*struct{}, error) { return &struct{}{}, nil },
		work.Handle(func(*struct{}, *actor.Context, actor.None) (int, error) {
			close(began)
			<-release
			return 7, nil
		})))
	there, err := actor.Spawn(t.Context(), worker, slow, "slow", actor.None{})
	require.NoError(t, err)
	type answer struct {
		n   int
		err error
	}
	answered, sent := make(chan answer, 1), make(chan struct{}, 64)
	for _, subject := range []string{r.p.Space().PortsOf(r.p.ID()), r.p.Space().FramesOf(r.p.ID().Process())} {
		_, err := r.bus(t).Data().Subscribe(subject, func(bus.Msg) { sent <- struct{}{} })
		require.NoError(t, err)
	}
	go func() {
		n, err := work.Call(t.Context(), there.Via(r.p), actor.None{})
		answered <- answer{n, err}
	}()
	<-began
	held, gate := make(chan struct{}), make(chan struct{})
	_, err = r.p.Bus().Data().Subscribe("hold", func(bus.Msg) {
		close(held)
		<-gate
	})
	require.NoError(t, err)
	require.NoError(t, worker.Bus().Data().Publish("hold", nil))
	<-held
	close(release)
	<-sent // the server has the answer
	teller := r.teller(t)
	teller.Emit(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Failed), Mesh: r.spec.Procs.ID.String(), Rank: 2,
		Reason: "killed", At: time.Now(),
	})
	require.NoError(t, teller.Bus().Control().Flush(t.Context()))
	here := make(chan struct{})
	r.p.Bus().Control().AfterReceived(func() { close(here) })
	<-here // the event is here, too
	require.Empty(t, answered)
	close(gate)
	require.Equal(t, answer{7, nil}, <-answered)
	require.Equal(t, agent.Failed, r.waitRank(t, ref, 2))
	require.Eventually(t, func() bool {
		_, dead := r.p.Members().Down(worker.ID())
		return dead
	}, 20*time.Second,
		time.Millisecond)
}

// waitRank waits until a rank has ended, and returns its end.
func (r *rig) waitRank(t *testing.T, ref actor.Ref[agent.Agent], rank int) agent.Phase {
	t.Helper()
	one, err := r.spec.Region.Extent().Region().Single(rank)
	require.NoError(t, err)
	_, err = agent.Wait.Call(t.Context(), ref,
		agent.WaitRequest{ID: r.spec.id(), Until: agent.Stopped, Region: &one})
	require.NoError(t, err)
	states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
	require.NoError(t, err)
	return states[rank].Status.Phase
}
