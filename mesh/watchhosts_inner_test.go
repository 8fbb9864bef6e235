package mesh

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// hostsOf is a mesh of four hosts, in two racks.
func hostsOf(t *testing.T) HostMesh {
	t.Helper()
	fleet, err := shape.Of("rack", 2).Concat(shape.Of("host", 2))
	require.NoError(t, err)
	h := HostMesh{net: &Net{config: &config.Config{}, proc: &actor.Proc{}, ctx: t.Context()}, name: "fleet", region: fleet.Region()}
	for i := range 4 {
		id, err := subjects.NewHostID(fmt.Sprintf("h%d", i))
		require.NoError(t, err)
		h.hosts = append(h.hosts, id)
	}
	return h
}

// told is all that a watch has to say now.
func (w *hostWatch) told() (all []string) {
	for {
		e, err, ok := w.said.first()
		if !ok {
			return all
		}
		all = append(all, fmt.Sprintf("%d at %d %s %s %v", e.Rank, e.View, e.Step, e.Status, err))
	}
}

func TestWatchHosts_sliceSeesItsOwnHostsAndEachChangeOnce_MESH19(t *testing.T) {
	w := newHostWatch(hostsOf(t).Slice("rack", 1, 2))
	defer w.alarm.Stop()
	first, second := w.mesh.hosts[0], w.mesh.hosts[1]
	is := func(id subjects.HostID, c presence.Change) {
		c.Host, c.Mode = id, agent.ModeOpen
		w.hear(c)
	}
	is(first, presence.Change{State: presence.Unknown, NeverHeard: true})
	is(first, presence.Change{State: presence.Alive})
	require.Empty(t, w.told(), "that it was not heard of before is no news")
	w.hear(presence.Change{Host: second, State: presence.Alive, Mode: agent.ModeCordoned})
	require.Equal(t, []string{"3 at 1 host.mode cordoned <nil>"}, w.told())
	is(first, presence.Change{State: presence.Suspect})
	is(first, presence.Change{State: presence.Dead})
	is(first, presence.Change{State: presence.Dead})
	require.Equal(t, []string{"2 at 0 host.suspect suspect <nil>", "2 at 0 host.dead failed <nil>"}, w.told())
	is(first, presence.Change{State: presence.Alive})
	is(first, presence.Change{State: presence.Dead, Graceful: true})
	is(second, presence.Change{State: presence.Unknown})
	require.Equal(t, []string{
		"2 at 0 host.alive open <nil>", "2 at 0 host.left stopped <nil>", "3 at 1 host.unknown unknown <nil>",
	}, w.told(), "and may end again")
}

func TestWatchHosts_disconnectedWatcherBlamesNoHost_MESH19(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostWatch(hostsOf(t))
		defer w.alarm.Stop()
		is := func(i int, s presence.State) {
			w.hear(presence.Change{Host: w.mesh.hosts[i], State: s, Mode: agent.ModeOpen})
		}
		nearly := w.watchdog - time.Second
		is(0, presence.Unknown)
		time.Sleep(nearly)
		is(1, presence.Unknown)
		is(0, presence.Alive)
		is(1, presence.Alive)
		time.Sleep(2 * nearly)
		require.Len(t, w.told(), 4, "it heard in time")
		is(2, presence.Unknown)
		time.Sleep(nearly)
		require.Len(t, w.told(), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		e, err, ok := w.said.first()
		require.True(t, ok)
		var deaf *ControllerError
		require.ErrorAs(t, err, &deaf)
		require.ErrorContains(t, err, "received nothing from the hosts of fleet for 2m0s")
		require.Equal(t, "controller", e.Type)
		require.Empty(t, e.Host)
	})
}

// reported is a mesh that is what its channel says.
type reported chan actor.Event

func (r reported) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		for {
			select {
			case e := <-r:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func TestSupervise_hostThatDiesTwiceFailsTwice(t *testing.T) {
	t.Parallel()
	mesh, dealt := make(reported), make(chan int)
	typ := actor.NewType[struct{}, actor.None]("supervisor")
	registry, err := actor.NewRegistry(typ.Define(func(ctx *actor.Context, _ actor.None) (struct{}, error) {
		Supervise(ctx, mesh, func(_ *actor.Context, e actor.Event) error {
			dealt <- e.Rank
			return nil
		})
		return struct{}{}, nil
	}))
	require.NoError(t, err)
	id, err := subjects.NewMeshID("one")
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: bustest.Open(t, bustest.Server(t)), Registry: registry})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(context.Background())) }()
	_, err = actor.Spawn(t.Context(), p, typ, "supervisor", actor.None{})
	require.NoError(t, err)
	for range 2 {
		mesh <- actor.Event{Kind: actor.KindHost, Rank: 3, Status: string(actor.Failed)}
		require.Equal(t, 3, <-dealt)
		mesh <- actor.Event{Kind: actor.KindHost, Rank: 3, Status: string(actor.Stopped)}
	}
}
