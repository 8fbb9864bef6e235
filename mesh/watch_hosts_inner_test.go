package mesh

import (
	"context"
	"errors"
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

// twoRacks is a mesh of four hosts, in two racks.
func twoRacks(t *testing.T) HostMesh {
	t.Helper()
	fleet, err := shape.Of("rack", 2).Concat(shape.Of("host", 2))
	require.NoError(t, err)
	h := HostMesh{net: &Net{config: &config.Config{}, proc: &actor.Proc{}, ctx: t.Context()}, name: "fleet",
		region: fleet.Region()}
	for i := range 4 {
		id, err := subjects.NewHostID(fmt.Sprintf("h%d", i))
		require.NoError(t, err)
		h.hosts = append(h.hosts, id)
	}
	return h
}

// hostWatch is a watch of hosts, with its events for their changes.
type hostWatch struct {
	*hostSource
	ranks rankStates
	me    *watcher
}

func newHostWatch(h HostMesh) *hostWatch {
	return &hostWatch{newOfHosts(h), rankStates{latest: map[int]actor.Event{}},
		newWatcher(shape.Extent{}, h.region)}
}

func (w *hostWatch) hear(c presence.Change) {
	if e, news := w.event(c); news {
		changes, _ := w.ranks.step(e)
		for _, e := range changes {
			w.me.enqueue(e)
		}
	}
}

// takeEvents returns the pending events of the watch.
func (w *hostWatch) takeEvents() (all []string) {
	for {
		e, err, ok := w.me.dequeue()
		if !ok {
			return all
		}
		all = append(all, fmt.Sprintf("%d.%d at %d %s %s %v", e.Rank, e.Gen, e.View, e.Step, e.Status, err))
	}
}

func TestWatchHosts_sliceSeesItsOwnHostsAndEachChangeOnce_MESH6(t *testing.T) {
	w := newHostWatch(twoRacks(t).Slice("rack", 1, 2))
	first, second := w.mesh.hosts[0], w.mesh.hosts[1]
	is := func(id subjects.HostID, c presence.Change) {
		c.Host, c.Mode = id, agent.ModeOpen
		w.hear(c)
	}
	is(first, presence.Change{State: presence.Unknown, NeverHeard: true})
	is(first, presence.Change{State: presence.Alive})
	require.Empty(t, w.takeEvents(), "a host without an earlier heartbeat is no change")
	w.hear(presence.Change{Host: second, State: presence.Alive, Mode: agent.ModeCordoned})
	require.Equal(t, []string{"3.0 at 1 host.mode cordoned <nil>"}, w.takeEvents())
	is(first, presence.Change{State: presence.Suspect})
	is(first, presence.Change{State: presence.Dead})
	is(first, presence.Change{State: presence.Dead})
	require.Equal(t, []string{"2.0 at 0 host.suspect suspect <nil>", "2.0 at 0 host.dead failed <nil>"},
		w.takeEvents())
	is(first, presence.Change{State: presence.Alive})
	is(first, presence.Change{State: presence.Dead, Graceful: true})
	is(second, presence.Change{State: presence.Unknown})
	require.Equal(t, []string{
		"2.1 at 0 host.alive open <nil>", "2.1 at 0 host.left stopped <nil>", "3.0 at 1 host.unknown unknown <nil>",
	}, w.takeEvents(), "it ends again, as the next generation")
}

func TestWatchHosts_deafProgramBlamesNoHost_MESH12(t *testing.T) {
	w := newHostWatch(twoRacks(t))
	is := func(i int, s presence.State) {
		w.hear(presence.Change{Host: w.mesh.hosts[i], State: s, Mode: agent.ModeOpen})
	}
	isDeaf := func() bool {
		_, err := w.list(t.Context(), 0, nil)
		return err != nil
	}
	require.False(t, isDeaf())
	is(0, presence.Unknown)
	is(1, presence.Unknown)
	is(0, presence.Alive)
	require.True(t, isDeaf(), "one host is unknown")
	is(1, presence.Alive)
	require.False(t, isDeaf())
	require.Len(t, w.takeEvents(), 4)
}

// deafened is a source with unknown hosts from then on.
type deafened struct{ *hostSource }

func (d deafened) subscribe(hear func(actor.Event), _ func()) (cancel func(), err error) {
	e, _ := d.event(presence.Change{Host: d.mesh.hosts[0], State: presence.Unknown, Mode: agent.ModeOpen})
	hear(e)
	return func() {}, nil
}

func TestWatchHosts_deafProgramEndsTheWatchInTime_MESH12(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := twoRacks(t)
		d := deafened{newOfHosts(h)}
		began := time.Now()
		var got []error
		for e, err := range (watchTarget{net: h.net, region: h.region, find: from(d)}).changes(t.Context()) {
			got = append(got, err)
			if err != nil {
				require.Equal(t, "controller", e.Type)
				require.Empty(t, e.Host)
			}
		}
		require.Len(t, got, 2)
		require.NoError(t, got[0], "it is unknown, and blamed for nothing")
		require.ErrorContains(t, got[1], "received nothing from the hosts of fleet for 2m0s")
		_, lost := errors.AsType[*ControllerError](got[1])
		require.True(t, lost)
		require.InDelta(t, 2*time.Minute, time.Since(began), float64(maxListInterval))
	})
}

// reported is a mesh with events from a channel.
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
	p, err := actor.NewProc(t.Context(),
		actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: bustest.Open(t, bustest.Server(t)), Registry: registry})
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
