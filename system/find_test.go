package system_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// find returns the result of Find, and its duration.
func (r *rig) find(t *testing.T) (actor.Ref[*system.Controller], time.Duration, error) {
	t.Helper()
	began := time.Now()
	ref, err := system.Find(t.Context(), r.client)
	return ref, time.Since(began), err
}

// serveAs subscribes in the place of the system controller of a space.
func (r *rig) serveAs(t *testing.T, space string, hear func(c *bus.Conn, m bus.Msg)) {
	t.Helper()
	c := r.Open(t).Control()
	_, err := c.Subscribe("$SRV.*.castnet-system."+space, func(m bus.Msg) { hear(c, m) })
	require.NoError(t, err)
}

func ignore(*bus.Conn, bus.Msg) {}

func TestFind_absenceIsKnownAtOnce(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.serveAs(t, "castnet_v1_other", ignore)
		_, took, err := r.find(t)
		require.ErrorIs(t, err, system.ErrNoController)
		require.Zero(t, took)
	})
}

func TestFind_wildcardListenerHidesNoAbsence(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, err := r.Open(t).Data().Subscribe(">", func(bus.Msg) {})
		require.NoError(t, err)
		_, took, err := r.find(t)
		require.ErrorIs(t, err, system.ErrNoController)
		require.Less(t, took, 2*time.Second)
		r.serve(t, "s")
		r.system(t)
	})
}

func TestFind_lateAnswerCounts(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		id := r.client.ID().Actor("system")
		r.serveAs(t, "castnet_v1_default", func(c *bus.Conn, m bus.Msg) {
			answer := fmt.Sprintf(`{"metadata":{"space":"castnet.v1.default","actor":%q,"epoch":"1"}}`, id)
			time.AfterFunc(4*time.Second, func() { _ = c.Publish(m.Reply, []byte(answer)) })
		})
		ref, took, err := r.find(t)
		require.NoError(t, err)
		require.Equal(t, id, ref.ID())
		require.Equal(t, 4*time.Second, took)
	})
}

func TestFind_silentListenerIsNoAbsence(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.serveAs(t, "castnet_v1_default", ignore)
		_, took, err := r.find(t)
		require.NotErrorIs(t, err, system.ErrNoController)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer within 5s, and one listens")
		require.Equal(t, 5*time.Second, took)
	})
}

// Two controllers without a store would stop each other's worlds.
func TestService_withoutAStoreReplacesNoSilentController_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.serveAs(t, "castnet_v1_default", ignore)
		r.serve(t, "two")
		time.Sleep(20 * time.Second)
		_, _, err := r.find(t)
		require.ErrorContains(t, err, "and one listens")
	})
}

// Servers that were apart, or a start at the same time, give two controllers without a store.
func TestService_withoutAStoreYieldsToAnEarlierControllerAtAnyTime_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.serve(t, "one")
		time.Sleep(10 * time.Second)
		ref, _, err := r.find(t)
		require.NoError(t, err)
		require.Equal(t, "system", ref.ID().Proc.Mesh.Label())
		earlier, err := subjects.NewMeshID("a")
		require.NoError(t, err)
		other := subjects.ProcID{Mesh: earlier}.Actor("system")
		r.serveAs(t, "castnet_v1_default", func(c *bus.Conn, m bus.Msg) {
			answer := fmt.Sprintf(`{"metadata":{"space":"castnet.v1.default","actor":%q,"epoch":"0"}}`, other)
			_ = c.Publish(m.Reply, []byte(answer))
		})
		time.Sleep(5 * time.Second)
		for range 20 {
			ref, _, err := r.find(t)
			require.NoError(t, err)
			require.Equal(t, other, ref.ID())
		}
	})
}

func TestFind_standbyIsNoAbsenceBetweenTerms_WORLD13(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "one")
		former := r.system(t)
		r.serve(t, "two")
		synctest.Wait() // the server knows that it listens
		kill()
		for {
			next, _, err := r.find(t)
			require.NotErrorIs(t, err, system.ErrNoController, "the other one stands by")
			if err == nil && next.ID() != former.ID() {
				return
			}
		}
	})
}
