package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/shape"
)

// share is two ranks, from 8 on, of a world of 12. Its program is a script.
func (r *rig) share(t *testing.T, script string) agent.Mesh {
	t.Helper()
	m := r.shell(t, script)
	m.Extent, m.PerHost, m.World = shape.Of("a", 3).With("b", 4), 8,
		&agent.WorldShare{World: "foo", First: 8, Count: 2}
	return m
}

func TestCreate_meshSetsRankVariables(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	m := r.mesh(t, 2, "CASTNET_RANK=9")
	m.Command = agent.Command{Path: "/bin/sh", Env: m.Command.Env, Args: []string{"-c",
		`echo ${CASTNET_WORLD-none} $CASTNET_PROC_ID $CASTNET_RANK $CASTNET_POINT $CASTNET_LOCAL_RANK` +
			` $CASTNET_WORLD_SIZE >&2; exit 3`}}
	r.create(t, m)
	for rank, st := range r.states(t, m) {
		want := fmt.Sprintf("none %s/%[2]d.0 %[2]d host=0/1,gpu=%[2]d/2 %[2]d 2", m.ID, rank)
		require.Equal(t, []string{want}, st.Proc.StderrTail)
	}
}

func TestCreate_worldShareSetsRankVariables(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	m := r.share(t,
		`echo $CASTNET_WORLD $CASTNET_PROC_ID $CASTNET_RANK $CASTNET_LOCAL_RANK $CASTNET_WORLD_SIZE >&2; exit 3`)
	r.create(t, m)
	states := r.states(t, m)
	require.Len(t, states, 2)
	for i, want := range []string{"foo " + m.ID.String() + "/8.0 8 0 12",
		"foo " + m.ID.String() + "/9.0 9 1 12"} {
		require.Equal(t, 8+i, states[i].Rank)
		require.Equal(t, []string{want}, states[i].Proc.StderrTail)
	}
	bad := m
	bad.World = &agent.WorldShare{World: "foo", First: 8, Count: 5}
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &bad})
	require.ErrorContains(t, err, "1 hosts with 5 ranks from 8 of the 12 of world foo: want one host and at "+
		"most 8 ranks")
}

// The end of a share's first generation is no end of the next one.
func TestCreate_worldShareUsesTheGivenGeneration_AGT1(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	m := r.share(t, "exit 3")
	r.create(t, m)
	r.stop(t, m, time.Second)
	again := agent.CreateRequest{Procs: &m, Wait: true}
	_, err := agent.Create.Call(t.Context(), r.agent(), again)
	require.NoError(t, err)
	require.Zero(t, r.states(t, m)[0].Gen)
	again.Gen = 2
	_, err = agent.Create.Call(t.Context(), r.agent(), again)
	require.NoError(t, err)
	require.Equal(t, 2, r.states(t, m)[0].Gen)
	again.Gen = 0
	_, err = agent.Create.Call(t.Context(), r.agent(), again)
	require.ErrorContains(t, err, "generation 0 is over: the latest is generation 2")
}

func TestWorlds_staleControllersAndIncarnationsAreRefused_HOST9(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	m, other := r.share(t, "exit 3"), r.share(t, "exit 3")
	ask := func(m agent.Mesh, epoch uint64, life string) error {
		_, err := agent.Create.Call(t.Context(), r.agent(),
			agent.CreateRequest{Procs: &m, Epoch: epoch, HostIncarnation: life})
		return err
	}
	info := func() agent.HostInfo {
		info, err := agent.Info.Call(t.Context(), r.agent(), actor.None{})
		require.NoError(t, err)
		return info
	}
	require.NoError(t, ask(m, 7, info().Incarnation()))
	require.EqualValues(t, 7, info().Epoch)
	require.ErrorContains(t, ask(other, 6, ""), "host a: the request is of epoch 6, older than epoch 7")
	_, err := agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: m.ID.String(), Epoch: 6})
	require.ErrorContains(t, err, (&agent.EpochError{Host: "a", Requested: 6, Current: 7}).Error())
	require.ErrorContains(t, ask(other, 7, "yesterday"),
		"host a: the request is for the incarnation since yesterday, this one is since ")
	require.Empty(t, r.states(t, other))
	require.NoError(t, ask(other, 0, ""), "other owners have no epoch")
	_, err = agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: m.ID.String(), Epoch: 8})
	require.NoError(t, err)
	require.EqualValues(t, 8, info().Epoch)
}
