package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestStop_ranksAreStoppingFromTheRequestOn_CTL4(t *testing.T) {
	t.Parallel()
	busy := make(chan struct{})
	r := newRig(t, func(h *fakeHost) { h.busy = busy })
	told := r.steps(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	told("mesh.spawn.attempt")
	told("mesh.spawn.success")
	part, err := r.spec.Region.Slice("host", 1, 2)
	require.NoError(t, err)
	done := make(chan error, 2)
	stop := func(s agent.StopRequest) {
		go func() {
			_, err := agent.Stop.Call(t.Context(), ref, s)
			done <- err
		}()
	}
	stop(agent.StopRequest{ID: r.spec.id(), Reason: "too many", Region: &part})
	r.hosts[1].await(t, "stop", 1)
	require.Equal(t, agent.Overlay{
		{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}},
		{First: 2, Count: 2, Status: agent.Status{Phase: agent.ShuttingDown, Reason: "too many"}},
	}, overlay(t, ref))
	stop(agent.StopRequest{ID: r.spec.id(), Reason: "enough"})
	r.hosts[0].await(t, "stop", 1)
	require.Equal(t, agent.Overlay{
		{First: 0, Count: 2, Status: agent.Status{Phase: agent.ShuttingDown, Reason: "enough"}},
		{First: 2, Count: 2, Status: agent.Status{Phase: agent.ShuttingDown, Reason: "too many"}},
	}, overlay(t, ref))
	told("mesh.stop.attempt")
	close(busy)
	for range 2 {
		require.NoError(t, <-done)
	}
	told("mesh.stop.success")
}

func TestStop_ranksAreStoppingWhenTheOwnerEnds_CTL4(t *testing.T) {
	t.Parallel()
	busy := make(chan struct{})
	r := newRig(t, func(h *fakeHost) { h.busy = busy })
	told := r.steps(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	told("mesh.spawn.attempt")
	told("mesh.spawn.success")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.close()
	}()
	told("mesh.stop.attempt")
	close(busy)
	told("mesh.stop.success")
	<-closed
}

// steps returns a function that awaits the next step of the mesh.
func (r *rig) steps(t *testing.T) (told func(string)) {
	t.Helper()
	steps := make(chan string, 8)
	b := r.bus(t)
	_, err := b.Control().Subscribe(r.p.Space().Events(actor.KindMesh, r.spec.Procs.ID), func(m bus.Msg) {
		if e, err := actor.DecodeEventFrom(r.p.Space(), m); err == nil {
			steps <- e.Step
		}
	})
	require.NoError(t, err)
	require.NoError(t, b.Control().Flush(t.Context()))
	return func(want string) {
		t.Helper()
		require.Equal(t, want, testkit.Next(t, steps))
	}
}

// overlay is the controller's report of the ranks of a mesh.
func overlay(t *testing.T, ref actor.Ref[agent.Agent]) agent.Overlay {
	t.Helper()
	states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
	require.NoError(t, err)
	by := map[int]agent.Status{}
	for _, s := range states {
		by[s.Rank] = s.Status
	}
	return agent.OverlayOf(by)
}
