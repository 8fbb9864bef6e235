package testkit_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestProcess_readsLinesToTheEnd(t *testing.T) {
	t.Parallel()
	p := testkit.Start(t, exec.Command("sh", "-c", `echo one; echo two; echo three >&2; printf rest; exit 3`))
	require.Equal(t, "one", p.Out.Line(t))
	require.Equal(t, 3, p.Exit(t))
	require.Equal(t, "two\nrest", p.Out.Unread())
	require.Equal(t, "rest", p.Out.Find(t, "es"), "the end ends the last line")
	require.Equal(t, "three\n", p.Err.String())
	require.Equal(t, "one\ntwo\nrestthree\n", p.Said())
	<-p.Ended()
}

func TestProcess_stopsInOrder(t *testing.T) {
	t.Parallel()
	both := &testkit.Transcript{}
	cmd := exec.Command("sh", "-c",
		`trap 'echo done; exit 0' TERM; echo ready >&2; while :; do sleep 0.01; done`)
	cmd.Stdout, cmd.Stderr = both, both
	p := testkit.Start(t, cmd)
	p.Err.Await(t, "ready")
	p.Stop(t)
	require.Equal(t, "ready\ndone\n", p.Said())
	killed := testkit.Start(t, exec.Command("sleep", "60"))
	killed.Send(t, syscall.SIGKILL)
	require.Equal(t, -1, killed.Exit(t))
}
