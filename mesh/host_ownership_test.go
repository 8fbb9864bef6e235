package mesh_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestHostMesh_otherProgramsCanAskAndWatchItsController_MESH8(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "found")
	found := c.AllHosts(t, c.Net)
	require.False(t, found.Owner().IsValid(), "found hosts have no owner")
	mine, err := c.Allocate(t.Context(), c.here(t), "mine", shape.Of("rack", 2))
	require.NoError(t, err)
	require.True(t, mine.Owner().IsValid())
	require.Equal(t, mine.Owner(), mine.Slice("rack", 1, 2).Owner(), "a slice has the owner of its mesh")
	mixed, err := c.HostsOf("mixed", append(found.Hosts(), mine.Hosts()...)...)
	require.NoError(t, err)
	require.False(t, mixed.Owner().IsValid())

	other := c.Connect(t)
	ref := actor.RefOf[agent.Agent](mine.Owner()).Via(other.Proc())
	states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
	require.NoError(t, err)
	require.Len(t, states, 2)
	require.Equal(t, mine.Hosts(), states[0].Mesh.Hosts)
	require.Equal(t, agent.Running, states[1].Status.Phase)
	require.NoError(t, mine.Slice("rack", 1, 2).Shutdown(t.Context(), "repair"))
	testkit.Until(t, "the host is leaving", func() bool {
		l, err := agent.ListEvents.Call(t.Context(), ref, agent.ListEventsRequest{})
		require.NoError(t, err)
		require.False(t, l.More)
		return slices.ContainsFunc(l.Events, func(e actor.Event) bool {
			return e.Point == "rack=1/2" && e.Name == "mine" && e.Status == string(agent.ModeLeaving)
		})
	})
	report, err := controller.Health.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	require.Equal(t, agent.Running, report.Phase, "the other one is there")

	o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: report.ID, Reason: "enough"})
	require.NoError(t, err)
	ranks := 0
	o.Each(9, func(_ int, s agent.Status) {
		require.Equal(t, agent.Stopped, s.Phase)
		ranks++
	})
	require.Equal(t, 2, ranks)
	alive, err := mixed.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false}, alive.Values(),
		"its stop ends its own hosts only")
	of, err := mixed.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.Running, of.Values()[0].Status.Phase)
	require.Equal(t, agent.Timeout, of.Values()[1].Status.Phase)
	require.NoError(t, mine.Shutdown(t.Context(), "again"))
	require.False(t, mine.Owner().IsValid(), "they have no owner any more")
}

// innkeeper is an actor that allocates hosts, and takes others.
type innkeeper struct {
	net  *mesh.Net
	from mesh.Allocator
	take []subjects.HostID
}

var (
	innkeepers = actor.NewType[*innkeeper, inn]("innkeeper")
	openInn    = actor.NewEndpoint[*innkeeper, actor.None, mesh.HostMesh]("open")
)

type inn struct {
	from mesh.Allocator
	take []subjects.HostID
}

func (i *innkeeper) open(ctx *actor.Context, _ actor.None) (mesh.HostMesh, error) {
	others, err := i.net.HostsOf("others", i.take...)
	if err == nil {
		err = others.Take(ctx)
	}
	if err != nil {
		return mesh.HostMesh{}, err
	}
	return i.net.Allocate(ctx, i.from, "inn", shape.Of("host", 2))
}

func (i *innkeeper) Cleanup(ctx *actor.Context, _ error) error { return i.net.Close(ctx) }

func TestHostMesh_endsWithTheActorThatAllocatedIt_MESH2(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.Net = c.Connect(t, operator)
	keepers := innkeepers.Define(func(ctx *actor.Context, p inn) (*innkeeper, error) {
		return &innkeeper{mesh.NetOf(ctx), p.from, p.take}, nil
	}, openInn.Handle((*innkeeper).open))
	conn := c.Connect(t, operator, func(o *mesh.Options) { o.Actors = []actor.Def{keepers} })
	taken := c.AllHosts(t, c.Net)
	keeper, err := actor.Spawn(t.Context(), conn.Proc(), innkeepers, "keeper", inn{c.here(t), taken.Hosts()})
	require.NoError(t, err)
	hosts, err := openInn.Call(t.Context(), keeper, actor.None{})
	require.NoError(t, err)
	hosts = hosts.Via(c.Net)
	alive, err := hosts.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, alive.Values())
	require.ErrorContains(t, taken.Take(t.Context()), "is owned by")

	ended := conn.Proc().StopActor(keeper.ID().Name, "closing time")
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "it does not end")
	}
	alive, err = hosts.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{false, false}, alive.Values())
	require.NoError(t, taken.Take(t.Context()), "taken hosts are free, and alive")
}

// asked is an allocator without hosts. It counts its calls.
type asked struct{ times int }

func (a *asked) Allocate(context.Context, shape.Extent) (mesh.Allocation, error) {
	a.times++
	return nil, errors.New("there are no hosts")
}

func TestHostMesh_controllerStartsBeforeItsHosts_MESH8(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	told := c.watchEvents(t)
	a := &asked{}
	_, err := c.Allocate(t.Context(), a, "none", shape.Of("host", 2))
	require.ErrorContains(t, err, "there are no hosts")
	require.Equal(t, 1, a.times)
	await(t, told, "hosts.allocate.failed")
	for _, a := range c.Proc().Actors() {
		require.False(t, strings.HasPrefix(a.Name, "controller-") && a.Status == actor.Running,
			"its controller has ended")
	}
	conn := c.Connect(t)
	require.NoError(t, conn.Close(t.Context()))
	_, err = conn.Allocate(t.Context(), a, "none", shape.Of("host", 2))
	require.Error(t, err)
	require.Equal(t, 1, a.times, "no hosts without a controller")
}

func TestClose_reportsHostsThatWereNotReturned_MESH8(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	started, err := c.here(t).Allocate(t.Context(), shape.Of("host", 1))
	require.NoError(t, err)
	conn := c.Connect(t)
	s := &stubborn{StaticHosts: started.Hosts()}
	_, err = conn.Allocate(t.Context(), s, "hosts", shape.Of("host", 1))
	require.NoError(t, err)
	require.ErrorContains(t, conn.Close(t.Context()), "not now")
	require.Equal(t, 2, s.closed, "the end of its controller does it again")
	require.NoError(t, started.Close(t.Context()))
}
