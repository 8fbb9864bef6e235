package host_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
)

// Meaning of test_basic of the host mesh agent: a client on another proc creates a proc. The host
// reports its ID, process and readiness, and its agent answers.
func TestHost_describesANewProcWhoseAgentAnswers(t *testing.T) {
	t.Parallel()
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mode)
			m := r.mesh(t, 1)
			m.Command.Args = []string{"worker"}
			m.Command.Env = []string{"PASSWORD=secret"}
			require.NotEqual(t, r.client.ID(), r.host.ID().Proc())
			_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
			require.NoError(t, err)
			require.Equal(t, all(1, agent.Status{Phase: agent.Running}), r.wait(t, m, agent.Running))
			states := r.states(t, m)
			require.Len(t, states, 1)
			s := states[0]
			require.Equal(t, []any{m.ID.String(), 0, 0, agent.Status{Phase: agent.Running}},
				[]any{s.ID, s.Rank, s.Gen, s.Status})
			require.Equal(t, m, *s.Mesh, "with its command")
			plain, err := r.client.Bus().Control().Request(t.Context(),
				bus.Msg{Subject: "castnet.v1.default.hr." + r.host.ID().String() + ".get.u-anon.x", Data: []byte("{}")})
			require.NoError(t, err)
			require.Contains(t, string(plain.Data), m.Command.Path)
			require.NotContains(t, string(plain.Data), "secret", "a plain client may only observe")
			require.Equal(t, agent.ProcessReady, s.Proc.State)
			require.Equal(t, r.host.ID().String(), s.Proc.Host)
			require.Equal(t, m.Command.Path, s.Proc.Program)
			require.Equal(t, name == "local", s.Proc.PID == os.Getpid())
			require.False(t, s.Proc.Started.IsZero())
			at := s.Mesh.ProcID(s.Rank, s.Gen)
			_, err = agent.Ping.Call(t.Context(), agent.Of(at).Via(r.client), actor.None{})
			require.NoError(t, err)
			actors, err := agent.Get.Call(t.Context(), agent.Of(at).Via(r.client), agent.GetRequest{})
			require.NoError(t, err)
			require.NotEmpty(t, actors)
			require.Equal(t, agent.Name, actors[0].ID)
		})
	}
}
