package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestClaim_formerOwnersOrdersAreRefusedNamingBoth_HOST10(t *testing.T) {
	t.Parallel()
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mode)
			m := r.mesh(t, 2)
			id := m.ID.String()
			first, second := agent.Claim{Epoch: 1, Owner: m.Owner},
				agent.Claim{Epoch: 2, Owner: r.client.ID().Actor("successor")}
			_, err := agent.Create.Call(t.Context(), r.agent(),
				agent.CreateRequest{Procs: &m, Wait: true, Lease: time.Minute, Claim: first})
			require.NoError(t, err)
			_, err = agent.Keepalive.Call(t.Context(), r.agent(), agent.Lease{ID: id, TTL: time.Minute, Claim: second})
			require.NoError(t, err)
			now := r.states(t, m)[0]
			require.Equal(t, second.Owner, now.Mesh.Owner, "the host names the present owner")
			require.Equal(t, second, *now.Claim)

			want := &agent.FencedError{ID: id, Agent: "a", Requested: first, Current: second}
			for _, order := range []func() error{
				func() error {
					_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m, Gen: 1, Claim: first})
					return err
				},
				func() error {
					_, err := agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: id, Claim: first})
					return err
				},
				func() error {
					_, err := agent.Keepalive.Call(t.Context(), r.agent(), agent.Lease{ID: id, TTL: time.Hour, Claim: first})
					return err
				},
			} {
				require.Equal(t, want, agent.AsFenced(order()))
			}
			require.Equal(t, agent.Running, r.states(t, m)[0].Status.Phase)
			require.LessOrEqual(t, r.states(t, m)[0].Lease, time.Minute)
			_, err = agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: id, Claim: second})
			require.NoError(t, err)
		})
	}
}

// Meanwhile a spare has replaced another host, and another owner has followed: it is the same mesh
// here.
func TestRestart_rankRestartsWithoutTheOwnerOrOtherHosts_AGT1(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	m := r.shell(t, "exit 3")
	other := testproc.HostID(t, "b")
	spare := testproc.HostID(t, "c")
	m.Hosts = append(m.Hosts, other)
	m.Extent = shape.Of("host", 2).With("gpu", 1)
	r.create(t, m)
	m.Hosts = []subjects.HostID{m.Hosts[0], spare}
	m.Owner = r.client.ID().Actor("successor")
	_, err := agent.Create.Call(t.Context(), r.agent(),
		agent.CreateRequest{Procs: &m, Ranks: []int{0}, Gen: 1, Wait: true})
	require.NoError(t, err)
	require.Equal(t, 1, r.states(t, m)[0].Gen)
	require.Equal(t, m.Hosts, r.states(t, m)[0].Mesh.Hosts)
	testkit.Until(t, "it has ended", func() bool { return r.states(t, m)[0].Status.Phase.Terminal() })
	m.Hosts[0], m.Hosts[1] = m.Hosts[1], m.Hosts[0]
	_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m, Ranks: []int{1}})
	require.ErrorContains(t, err, "exists already with another spec")
	_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m, Ranks: []int{1}, Gen: 2})
	require.NoError(t, err, "the next generation is in another place")
	require.Len(t, r.states(t, m), 1)
	require.Equal(t, []int{1, 2}, []int{r.states(t, m)[0].Rank, r.states(t, m)[0].Gen})
}
