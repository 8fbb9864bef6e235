package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
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
