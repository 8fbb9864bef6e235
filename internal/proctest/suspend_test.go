package proctest_test

import (
	"bufio"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/proctest"
)

func TestSuspend_silencesAProcessUntilResumed(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	proctest.Suspend(t, cmd.Process.Pid)
	said := make(chan string)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- line
	}()
	_, err = io.WriteString(in, "hello\n")
	require.NoError(t, err)
	select {
	case line := <-said:
		require.Fail(t, "it has printed "+line)
	default:
	}
	proctest.Resume(t, cmd.Process.Pid)
	require.Equal(t, "hello\n", <-said)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
