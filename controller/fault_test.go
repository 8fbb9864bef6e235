package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Faults of other systems' controllers with an effect between a controller, agents and subscribers;
// docs/recovery.md lists all of them.

// killed is a host's event for a killed proc of that rank.
func (r *rig) killed(rank int) actor.Event {
	return actor.Event{
		Kind: actor.KindProc, Status: "failed", Mesh: r.spec.Procs.ID.String(), Rank: rank, Signal: 9,
		Reason: "killed by signal 9",
		Host:   r.spec.Procs.Hosts[rank/r.spec.Procs.PerHost].String(), At: time.Now(),
	}
}

// teller is a proc that publishes a host's events.
func (r *rig) teller(t *testing.T) *actor.Proc {
	t.Helper()
	p, _ := testproc.Start(t, r.srv, testproc.Options{Options: actor.Options{
		ID: testproc.HostID(t, "teller").Proc(), Principal: subjects.System.Principal("teller"),
	}}, Def())
	return p
}

// subscribe returns the changes of a controller's ranks, as a watcher in a proc gets them: it
// subscribes, lists, and drops known events.
func subscribe(t *testing.T, p *actor.Proc, ref actor.Ref[agent.Agent]) <-chan actor.Event {
	t.Helper()
	said := make(chan actor.Event, 2048)
	var mu sync.Mutex
	known := map[uint64]bool{}
	hear := func(e actor.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !known[e.Seq] {
			known[e.Seq] = true
			said <- e
		}
	}
	r := health(t, ref)
	name, kind := "", actor.KindProc
	if r.Actors != nil {
		name, kind = r.Actors.Name, actor.KindActor
	}
	subject := p.Space().EventsBy(actor.KindRank, r.Procs.ID, ref.ID().Proc.Process())
	sub, err := p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(p.Space(), m)
		if err == nil && e.Actor == name {
			e.Kind = kind
			e.Each(hear)
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	require.NoError(t, p.Bus().Control().Flush(t.Context()))
	for _, e := range list(t, ref.Via(p), 0) {
		e.Each(hear)
	}
	return said
}

// list returns a controller's list after a version.
func list(t *testing.T, ref actor.Ref[agent.Agent], after uint64) (events []actor.Event) {
	t.Helper()
	for {
		l, err := agent.ListEvents.Call(t.Context(), ref, agent.ListEventsRequest{After: after})
		require.NoError(t, err)
		events = append(events, l.Events...)
		after = l.Version
		if !l.More {
			return events
		}
	}
}

func health(t *testing.T, ref actor.Ref[agent.Agent]) Report {
	t.Helper()
	r, err := Health.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	return r
}

// meshSteps receives the events of the rig's controllers about their meshes.
func (r *rig) meshSteps(t *testing.T) <-chan actor.Event {
	t.Helper()
	said := make(chan actor.Event, 1024)
	t.Cleanup(r.p.Observe(func(e actor.Event) {
		if e.Kind == actor.KindMesh {
			said <- e
		}
	}))
	return said
}

// notNow is the answer of a host that renews no lease.
func notNow() (agent.Overlay, error) { return nil, errors.New("not now") }

var (
	frail   = actor.NewType[*struct{}, actor.None]("frail")
	shatter = actor.NewEndpoint[*struct{}, actor.None, actor.None]("shatter")
)

func frailDef() actor.Def {
	return frail.Define(func(*actor.Context, actor.None) (*struct{}, error) { return &struct{}{}, nil },
		shatter.Handle(func(*struct{}, *actor.Context, actor.None) (actor.None, error) { panic("for testing") }))
}

// frails are actors of type frail.
func frails(name string) *agent.ActorSpec {
	return &agent.ActorSpec{Name: name, Type: frail.Name(), Params: []byte{0xa0}}
}

func TestFaultC1_controllerAnswersDespiteFailures_CTL3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, func(h *fakeHost) { h.renew = notNow })
		r.spec.Lease = time.Second
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		said := subscribe(t, r.p, ref)
		r.teller(t).Emit(r.killed(1))
		require.Equal(t, 1, testkit.Next(t, said).Rank)
		r.hosts[0].await(t, "keepalive 1s", 1) // which fails
		require.Len(t, list(t, ref, 0), 1)
		_, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref)})
		require.NoError(t, err)
		for range 3 {
			testkit.Next(t, said)
		}
		require.Empty(t, list(t, ref, 4), "the mesh is over, and its controller lives")
	})
}

func TestFaultC3_leasesOfLiveRanksAreRenewedDespiteFailures(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		procs := r.join(t, 4, frailDef())
		spec := r.spec
		spec.Lease, spec.Actors = 4*time.Second, frails("frails")
		ref := r.own(t, spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		port := subscribe(t, r.p, ref)
		teller := r.teller(t)
		teller.Emit(r.killed(0)) // a proc has ended
		testkit.Next(t, port)
		_, err := shatter.Call(t.Context(), actor.RefOf[*struct{}](procs[1].ID().Actor("frails")).
			Via(r.p), actor.None{})
		require.Error(t, err)
		testkit.Next(t, port)
		until := time.Now().Add(spec.Lease * 5 / 4)
		for time.Now().Before(until) {
			for _, p := range procs[2:] {
				o, err := agent.Keepalive.Call(t.Context(), agent.Of(p.ID()).Via(r.p), agent.Lease{ID: "frails"})
				require.NoError(t, err)
				require.Equal(t, agent.Running, o[0].Status.Phase)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestFaultC4_stopReachesRemainingRanksAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testing.T, *rig, actor.Ref[agent.Agent]){
		"asked": func(t *testing.T, _ *rig, ref actor.Ref[agent.Agent]) {
			o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
			require.NoError(t, err)
			require.Equal(t, "failed: killed by signal 9", o[1].Status.String())
		},
		"the controller ends": func(_ *testing.T, r *rig, _ actor.Ref[agent.Agent]) { r.close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ref := r.own(t, r.spec)
			create(t, ref)
			wait(t, ref, agent.Running)
			port := subscribe(t, r.p, ref)
			r.teller(t).Emit(r.killed(1))
			testkit.Next(t, port)
			stop(t, r, ref)
			r.stoppedOnce(t, r.hosts...)
			for _, h := range r.hosts {
				require.Equal(t, agent.Stopped, h.status(r.spec.id(), h.ranks[0]).Phase)
			}
		})
	}
}

func TestFaultC5_unreachableAgentFailsNoRank(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, func(h *fakeHost) { h.renew = notNow })
		r.spec.Lease = time.Second
		said := r.meshSteps(t)
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		port := subscribe(t, r.p, ref)
		for range 4 { // again and again
			e := <-said
			for e.Step != "lease.renew.failed" {
				e = <-said
			}
			require.Regexp(t, `^[ab]-\w+ did not renew leases: .*not now$`, e.Reason)
			require.Equal(t, actor.KindMesh, e.Kind)
		}
		require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running))
		r.teller(t).Emit(r.killed(3))
		require.Equal(t, 3, testkit.Next(t, port).Rank, "no earlier event")
	})
}

func TestFaultC7_failedStopOnOneHostKeepsOtherStatuses(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		procs := r.join(t, 4, frailDef())
		spec := r.spec
		spec.Actors = frails("frails")
		ref := r.own(t, spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		<-procs[0].StopActor(agent.Name, "nobody answers for rank 0")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		o, err := agent.Stop.Call(ctx, ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
		require.NoError(t, err)
		require.Equal(t, agent.Run{First: 1, Count: 3, Status: agent.Status{Phase: agent.Stopped, Reason: "done"}},
			o[len(o)-1])
		require.False(t, o[0].Status.Phase.Terminal(), "rank 0 has no known end: %v", o)
	})
}

func TestFaultC11_burstOfFailuresArrivesOneByOne(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		const perHost = 500
		extent := shape.Of("host", 2).With("gpu", perHost)
		r := newRig(t, func(h *fakeHost) {
			first := h.ranks[0] / 2 * perHost
			h.ranks = nil
			for rank := range perHost {
				h.ranks = append(h.ranks, first+rank)
			}
		})
		r.spec.Procs.Extent, r.spec.Procs.PerHost, r.spec.Region = extent, perHost, extent.Region()
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		watcher := r.teller(t)
		port := subscribe(t, watcher, ref)
		for rank := range 2 * perHost {
			watcher.Emit(r.killed(rank))
		}
		for rank := range 2 * perHost {
			require.Equal(t, rank, testkit.Next(t, port).Rank)
		}
	})
}

func TestFaultC12_repeatedListHasNoDuplicates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	teller := r.teller(t)
	said := subscribe(t, r.p, ref)
	teller.Emit(r.killed(0))
	require.Equal(t, 0, testkit.Next(t, said).Rank)
	teller.Emit(r.killed(0)) // the host repeats itself
	for range 2 {
		all := list(t, ref, 0)
		require.Len(t, all, 1)
		require.Empty(t, list(t, ref, all[0].Seq), "an up-to-date watcher gets nothing")
	}
	teller.Emit(r.killed(1))
	require.Equal(t, 1, testkit.Next(t, said).Rank)
	require.Empty(t, said)
}

func TestFaultC14_procWithAFailedActorAcceptsOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	procs := r.join(t, 4, frailDef())
	spec := r.spec
	spec.Actors = frails("first")
	ref := r.own(t, spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	_, err := shatter.Call(t.Context(), actor.RefOf[*struct{}](procs[1].ID().Actor("first")).
		Via(r.p), actor.None{})
	require.Error(t, err)
	spec.Actors = frails("second")
	ref = r.own(t, spec)
	create(t, ref)
	require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running))
}

func TestFaultC18_failureReportBeginsWithActorPlaceAndCause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	procs := r.join(t, 4, frailDef())
	spec := r.spec
	spec.Actors, spec.Name = frails("frails"), "trainers"
	ref := r.own(t, spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	port := subscribe(t, r.p, ref)
	_, err := shatter.Call(t.Context(), actor.RefOf[*struct{}](procs[3].ID().Actor("frails")).
		Via(r.p), actor.None{})
	require.Error(t, err)
	e := testkit.Next(t, port)
	require.Equal(t, []string{"trainers", "host=1/2,gpu=1/2", "frail", "shatter",
		r.spec.Procs.Hosts[1].String()}, []string{e.Name, e.Point, e.Type, e.Endpoint, e.Host})
	first, _, _ := strings.Cut(e.String(), "\n")
	for _, part := range []string{"frails", "type frail", "failed", e.Host, "shatter: panicked: for testing"} {
		require.Contains(t, first, part)
	}
}
