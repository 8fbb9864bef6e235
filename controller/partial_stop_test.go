package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestStop_regionNeedsOneMessagePerHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	part, err := r.spec.Region.Slice("host", 1, 2)
	require.NoError(t, err)
	for range 2 { // the second time nothing is left to do
		o, err := agent.Stop.Call(t.Context(), ref,
			agent.StopRequest{ID: idOf(t, ref), Reason: "enough", Region: &part})
		require.NoError(t, err)
		require.Equal(t, one(2, agent.Stopped, "enough"), o)
	}
	require.Zero(t, r.hosts[0].stopCount())
	all, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
	require.NoError(t, err)
	var phases []agent.Phase
	for _, s := range all {
		phases = append(phases, s.Status.Phase)
	}
	require.Equal(t, []agent.Phase{agent.Running, agent.Running, agent.Stopped, agent.Stopped}, phases)

	beyond := shape.Of("host", 3).With("gpu", 2).Region()
	_, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Region: &beyond})
	require.Error(t, err, "it is no part of the mesh")
	beyond, err = beyond.Slice("host", 2, 3)
	require.NoError(t, err)
	_, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Region: &beyond})
	require.Error(t, err)
}

func TestStop_regionRepliesWithLostRanksAsFailed_CTL8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		r.hosts[1].startAgain()
		part, err := r.spec.Region.Slice("host", 1, 2)
		require.NoError(t, err)
		o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "enough", Region: &part})
		require.NoError(t, err)
		require.Equal(t, one(2, agent.Failed, "host b does not have it: hostd has started again"), o)
	})
}

// The host may get the stop before the order to restart, and carries out both.
func TestStop_regionAlsoStopsRankThatStartsLater(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		late := make(chan struct{})
		r := newRig(t, func(h *fakeHost) { h.late = late })
		r.spec.RestartPolicy.Restart = actor.Transient
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		r.teller(t).Emit(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: r.spec.Procs.ID.String(), Rank: 2})
		r.hosts[1].await(t, "create", 2)
		part, err := r.spec.Region.Single(2)
		require.NoError(t, err)
		_, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "enough", Region: &part})
		require.NoError(t, err)
		close(late)
		r.hosts[1].await(t, "stop", 2)
	})
}
