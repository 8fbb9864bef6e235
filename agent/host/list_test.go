package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestGet_listOfAllMeshesFitsAMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.Allow = []string{"/bin/sh"} })
	m := r.shell(t, "echo last words >&2; exit 3")
	r.create(t, m)
	one := r.states(t, m)
	require.Contains(t, one[0].Status.Reason, "\n  stderr: last words")
	require.Equal(t, []string{"last words"}, one[0].Proc.StderrTail)
	all, err := agent.Get.Call(t.Context(), r.agent(), agent.GetRequest{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NotContains(t, all[0].Status.Reason, "\n")
	require.NotEmpty(t, all[0].Status.Reason)
	require.Empty(t, all[0].Proc.StderrTail)
	require.Equal(t, 3, *all[0].Proc.ExitCode)
	require.Equal(t, one, r.states(t, m), "the record is unchanged")
}

// The owner of a mesh takes a rank that is not in a reply for lost.
func TestReplies_haveAllRanksOfTheMesh_AGT3(t *testing.T) {
	t.Parallel()
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mode)
			m := r.mesh(t, 3)
			r.create(t, m)
			part, err := m.Extent.Region().Slice("gpu", 1, 2)
			require.NoError(t, err)
			phases := func(o agent.Overlay) (all []agent.Phase) {
				o.Each(m.Extent.NumRanks(), func(_ int, s agent.Status) { all = append(all, s.Phase) })
				return all
			}
			want := []agent.Phase{agent.Running, agent.Stopped, agent.Running}
			o, err := agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: m.ID.String(), Region: &part})
			require.NoError(t, err)
			require.Equal(t, want, phases(o))
			o, err = agent.Keepalive.Call(t.Context(), r.agent(), agent.Lease{ID: m.ID.String(), TTL: time.Minute})
			require.NoError(t, err)
			require.Equal(t, want, phases(o))
			said, err := agent.Renew.Call(t.Context(), r.agent(), []agent.Lease{{ID: m.ID.String(), TTL: time.Minute}})
			require.NoError(t, err)
			require.Equal(t, want, phases(said[0].Statuses))
		})
	}
}

func TestGet_measuresProcsOnRequestOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.Allow = []string{"/bin/sh"} })
	m := r.shell(t, "while :; do :; done")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	get := func(usage bool) *agent.ProcInfo {
		states, err := agent.Get.Call(t.Context(), r.agent(), agent.GetRequest{Usage: usage})
		require.NoError(t, err)
		return states[0].Proc
	}
	testkit.Until(t, "it uses its CPU", func() bool { return get(true).CPUTime >= 50*time.Millisecond })
	require.Greater(t, get(true).Memory, int64(100<<10))
	require.Zero(t, get(false).CPUTime)
	require.Zero(t, get(false).Memory)
	_, err = agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: m.ID.String(), Grace: time.Millisecond})
	require.NoError(t, err)
	require.Zero(t, get(true).Memory, "it has ended")
}
