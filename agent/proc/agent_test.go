package proc_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/agenttest"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// rig is a mesh of procs in this process and a client.
type rig struct {
	client *actor.Proc
	mesh   agent.Mesh
	procs  []*actor.Proc
}

func newRig(t *testing.T, ranks int) *rig {
	t.Helper()
	srv := bustest.Server(t)
	r := &rig{mesh: agent.Mesh{ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("gpu", ranks), PerHost: ranks}}
	for rank := range ranks {
		p, router, err := proc.Join(t.Context(), proc.Options{
			Bus: open(t, srv), Registry: testproc.Registry(t, counterDef()), Mesh: r.mesh, Rank: rank, Log: quiet(t),
		})
		require.NoError(t, err)
		testproc.Close(t, p, router)
		r.procs = append(r.procs, p)
	}
	r.client = newClient(t, srv, subjects.Operator)
	return r
}

// newClient is a proc outside any mesh.
func newClient(t *testing.T, srv *embed.Server, role subjects.Role, defs ...actor.Def) *actor.Proc {
	t.Helper()
	p, _ := testproc.Start(t, srv, testproc.Options{Options: actor.Options{
		Principal: role.Principal("test"), Log: quiet(t),
	}}, defs...)
	return p
}

func quiet(t *testing.T) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.FatalLevel)
}

func open(t *testing.T, srv *embed.Server) *bus.Bus {
	t.Helper()
	return bustest.Open(t, srv, func(o *bus.Options) { o.Log = quiet(t) })
}

// agent addresses the agent of a rank.
func (r *rig) agent(rank int) actor.Ref[agent.Agent] {
	return agent.Of(r.procs[rank].ID()).Via(r.client)
}

// create asks a rank for a counter.
func (r *rig) create(t *testing.T, rank int, name string, start int64) (agent.Overlay, error) {
	t.Helper()
	return agent.Create.Call(t.Context(), r.agent(rank),
		agent.CreateRequest{Actors: counterSpec(t, name, start)})
}

func counterSpec(t *testing.T, name string, start int64) *agent.ActorSpec {
	t.Helper()
	params, err := wire.Marshal(start)
	require.NoError(t, err)
	return &agent.ActorSpec{Name: name, Type: "counter", Params: params, Owner: owner(t)}
}

// owner is a controller's address.
func owner(t *testing.T) (id subjects.ActorID) {
	t.Helper()
	require.NoError(t, id.UnmarshalText([]byte("client-000000000000c/0.0/controller-000000000000d")))
	return id
}

// wait waits for a phase and returns the one status of the reply.
func (r *rig) wait(t *testing.T, rank int, name string, until agent.Phase) agent.Run {
	t.Helper()
	o, err := agent.Wait.Call(t.Context(), r.agent(rank), agent.WaitRequest{ID: name, Until: until})
	require.NoError(t, err)
	require.Len(t, o, 1)
	require.Equal(t, 1, o[0].Count)
	return o[0]
}

func (r *rig) counter(rank int, name string) actor.Ref[*counter] {
	return actor.RefOf[*counter](r.procs[rank].ID().Actor(name)).Via(r.client)
}

func TestProcAgent_createsActorsAndDrainsThemOnStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	_, err := r.create(t, 1, "c", 5)
	require.NoError(t, err)
	require.Equal(t, agent.Run{First: 1, Count: 1, Status: agent.Status{Phase: agent.Running}},
		r.wait(t, 1, "c", agent.Running))
	for range 10 {
		require.NoError(t, add.Send(t.Context(), r.counter(1, "c"), 1))
	}
	n, err := add.Call(t.Context(), r.counter(1, "c"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 15, n)
	where, err := point.Call(t.Context(), r.counter(1, "c"), actor.None{})
	require.NoError(t, err)
	require.Equal(t, "gpu=1/2", where, "asked directly, it stands where its proc does")

	states, err := agent.Get.Call(t.Context(), r.agent(1), agent.GetRequest{ID: "c"})
	require.NoError(t, err)
	require.Len(t, states, 1)
	require.Equal(t, 1, states[0].Rank)
	require.True(t, states[0].Actor.Managed)
	require.Equal(t, "counter", states[0].Actor.Type)
	require.EqualValues(t, 12, states[0].Actor.Handled)
	require.Contains(t, states[0].Actor.Endpoints, "add(int64) int64")

	for range 2 { // the second time at once
		o, err := agent.Stop.Call(t.Context(), r.agent(1), agent.StopRequest{ID: "c", Reason: "done"})
		require.NoError(t, err)
		require.Equal(t, agent.Overlay{{First: 1, Count: 1,
			Status: agent.Status{Phase: agent.Stopped, Reason: "done"}}}, o)
	}
	_, err = add.Call(t.Context(), r.counter(1, "c"), 1)
	require.ErrorIs(t, err, actor.ErrStopped)
}

func TestProcAgent_nameBelongsToOneSpec_PROC4(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, err := r.create(t, 0, "c", 5)
	require.NoError(t, err)
	r.wait(t, 0, "c", agent.Running)
	o, err := r.create(t, 0, "c", 5)
	require.NoError(t, err, "the same again")
	require.Equal(t, agent.Running, o[0].Status.Phase)
	_, err = r.create(t, 0, "c", 6)
	require.ErrorContains(t, err, "c exists already with another spec")
	n, err := add.Call(t.Context(), r.counter(0, "c"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

func TestProcAgent_reportsWhyAnActorCannotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, err := r.create(t, 0, "c", -1)
	require.NoError(t, err)
	run := r.wait(t, 0, "c", agent.Running)
	require.Equal(t, agent.Failed, run.Status.Phase)
	require.Contains(t, run.Status.Reason, "cannot count from below zero")

	for _, spec := range []agent.ActorSpec{{Name: "a", Type: "abacus"},
		{Name: "b", Type: "counter", Params: []byte{0x61, 'x'}}} {
		spec.Owner = owner(t)
		_, err = agent.Create.Call(t.Context(), r.agent(0), agent.CreateRequest{Actors: &spec})
		require.NoError(t, err)
	}
	run = r.wait(t, 0, "a", agent.Running)
	require.Contains(t, run.Status.Reason, `actor type "abacus" is not known`)
	require.Contains(t, run.Status.Reason, "counter")
	require.Contains(t, r.wait(t, 0, "b", agent.Running).Status.Reason, "actor type counter: parameters")
	states, err := agent.Get.Call(t.Context(), r.agent(0), agent.GetRequest{})
	require.NoError(t, err)
	var ids []string
	for _, s := range states {
		ids = append(ids, s.ID)
	}
	require.Equal(t, []string{"a", "agent", "b", "c"}, ids, "failed constructors are listed, too")

	_, err = r.create(t, 0, "two words", 0)
	require.ErrorContains(t, err, `"two words"`)
	_, err = agent.Create.Call(t.Context(), r.agent(0), agent.CreateRequest{})
	require.ErrorContains(t, err, "want the field actors")
	_, err = agent.Logs.Call(t.Context(), r.agent(0), agent.LogsRequest{})
	require.ErrorContains(t, err, "ask the agent of its host")
}

func TestProcAgent_stopsAnActorDuringItsConstructor(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, err := r.create(t, 0, "slow", 1000)
	require.NoError(t, err)
	o, err := agent.Stop.Call(t.Context(), r.agent(0), agent.StopRequest{ID: "slow", Reason: "changed my mind"})
	require.NoError(t, err)
	require.Equal(t, agent.Status{Phase: agent.Stopped, Reason: "changed my mind"}, o[0].Status)
}

func TestProcAgent_reportsItsRankInTheCallersView(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4)
	all := members{cast.Target{Via: r.client, Placement: cast.Placement{Mesh: r.mesh.ID, Extent: r.mesh.Extent,
		PerHost: 4}, Actor: agent.Name, Region: r.mesh.Extent.Region()}}
	half := all
	var err error
	half.t.Region, err = all.t.Region.Slice("gpu", 2, 4)
	require.NoError(t, err)
	_, err = cast.Reduce(t.Context(), half, agent.Create, agent.CreateRequest{Actors: counterSpec(t, "c", 1)},
		agent.MergeOverlays)
	require.NoError(t, err)
	o, err := cast.Reduce(t.Context(), half, agent.Wait, agent.WaitRequest{ID: "c", Until: agent.Running},
		agent.MergeOverlays)
	require.NoError(t, err)
	require.Equal(t, agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}}}, o)
	where, err := point.Call(t.Context(), r.counter(3, "c"), actor.None{})
	require.NoError(t, err)
	require.Equal(t, "gpu=1/2", where, "an actor stands in the mesh it was made for")

	states, err := cast.Reduce(t.Context(), all, agent.Get, agent.GetRequest{ID: "c"}, agent.JoinStates)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, []int{states[0].Rank, states[1].Rank})
	o, err = cast.Reduce(t.Context(), all, agent.Stop, agent.StopRequest{ID: "c"}, agent.MergeOverlays)
	require.NoError(t, err, "the same for each creator and viewer")
	require.Equal(t, agent.Overlay{{First: 2, Count: 2, Status: agent.Status{Phase: agent.Stopped}}}, o)
}

// members are the agents of a region.
type members struct{ t cast.Target }

func (m members) Target() (cast.Target, error) { return m.t, nil }

func (m members) Ref(rank int) actor.Ref[agent.Agent] {
	base, err := m.t.Region.BaseRank(rank)
	if err != nil {
		return actor.ErrRef[agent.Agent](err)
	}
	return agent.Of(m.t.Placement.Proc(base))
}

func TestProcAgent_publishesEndsOfActors_AGT9(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ended := make(chan actor.Event, 8)
	control := r.client.Bus().Control()
	sub, err := control.Subscribe(r.client.Space().ActorEvents(actor.KindActor, r.mesh.ID, "c"),
		func(m bus.Msg) {
			if e, err := actor.DecodeEventFrom(r.client.Space(), m); err == nil {
				ended <- e
			}
		})
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	require.NoError(t, control.Flush(t.Context()))
	for _, name := range []string{"c", "d"} {
		_, err := r.create(t, 0, name, 0)
		require.NoError(t, err)
		r.wait(t, 0, name, agent.Running)
	}
	_, err = crash.Call(t.Context(), r.counter(0, "d"), actor.None{})
	require.ErrorIs(t, err, actor.ErrPanic)
	_, err = crash.Call(t.Context(), r.counter(0, "c"), actor.None{})
	require.ErrorIs(t, err, actor.ErrPanic)
	e := testkit.Next(t, ended)
	require.Equal(t, []string{"c", "failed"}, []string{e.Actor, e.Status})
	run := r.wait(t, 0, "c", agent.Stopped)
	require.Equal(t, agent.Failed, run.Status.Phase)
	require.Contains(t, run.Status.Reason, "crash test")
	require.Empty(t, ended)
}

func TestProcAgent_waitAnswersBeforeTheCallersDeadline_AGT5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, 1)
		_, err := r.create(t, 0, "c", 0)
		require.NoError(t, err)
		r.wait(t, 0, "c", agent.Running)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := agent.Wait.Call(ctx, r.agent(0), agent.WaitRequest{ID: "c", Until: agent.Stopped})
		require.NoError(t, err)
		require.Equal(t, agent.Running, o[0].Status.Phase)
		target := members{cast.Target{Via: r.client,
			Placement: cast.Placement{Mesh: r.mesh.ID, Extent: r.mesh.Extent, PerHost: 1}, Actor: agent.Name,
			Region: r.mesh.Extent.Region()}}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err = cast.Reduce(ctx, target, agent.Wait, agent.WaitRequest{ID: "c", Until: agent.Stopped},
			agent.MergeOverlays)
		require.NoError(t, err, "before its folder gives up, too")
		require.Equal(t, agent.Running, o[0].Status.Phase)
	})
}

func TestProcAgent_fulfilsTheAgentContract(t *testing.T) { // AGT-9
	t.Parallel()
	agenttest.TestAgentInBubbles(t, func(t *testing.T) agenttest.Fixture {
		r := newRig(t, 1)
		creation := func(typ string) agent.CreateRequest {
			name, err := subjects.NewName("c")
			require.NoError(t, err)
			raw, err := wire.Marshal(0)
			require.NoError(t, err)
			return agent.CreateRequest{Actors: &agent.ActorSpec{Name: name, Type: typ, Params: raw,
				Owner: r.client.ID().Actor("controller")}}
		}
		return agenttest.Fixture{
			Agent: r.agent(0).Via(r.client), Client: r.client, Recreatable: true, Leases: true,
			New:     func(*testing.T) agent.CreateRequest { return creation("counter") },
			Failing: func(*testing.T) agent.CreateRequest { return creation("nothing") },
			ID:      func(c agent.CreateRequest) string { return c.Actors.Name },
			Other: func(c agent.CreateRequest) agent.CreateRequest {
				spec := *c.Actors
				spec.Params = append([]byte{}, 0x07)
				return agent.CreateRequest{Actors: &spec}
			},
		}
	})
}

func TestJoin_refusesARankOutsideTheMesh(t *testing.T) {
	t.Parallel()
	m := agent.Mesh{ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("gpu", 2), PerHost: 2}
	p, router, err := proc.Join(t.Context(), proc.Options{Bus: open(t, bustest.Server(t)), Mesh: m, Rank: 2,
		Log: quiet(t)})
	require.ErrorContains(t, err, `"2"`)
	require.Nil(t, router)
	require.NoError(t, p.Close(t.Context()))
}
