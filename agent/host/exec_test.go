package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// allowExec is the operator's permission.
func allowExec(o *host.Options) {
	o.Config = &config.Config{}
	_ = config.HostAllowExec.Override(o.Config, true) // the value is in its bounds
}

func (r *rig) exec(t *testing.T, within time.Duration, of *subjects.ProcID, command ...string) (
	agent.ExecResult, error) {
	t.Helper()
	return agent.Exec.Call(t.Context(), r.agent(),
		agent.ExecRequest{Command: command, Timeout: within, Proc: of})
}

func TestExec_isRefusedUnlessTheOperatorAllowsIt_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.exec(t, time.Minute, nil, "true")
	require.ErrorContains(t, err, (&agent.ExecNotAllowedError{Host: "a"}).Error())
	require.ErrorContains(t, err, "start hostd with --allow-exec")
	m := r.mesh(t, 1)
	_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{
		Procs: &m, Config: config.Snapshot{Values: map[string]string{"host.allow-exec": "true"}},
	})
	require.NoError(t, err)
	_, err = r.exec(t, time.Minute, nil, "true")
	require.ErrorContains(t, err, "cannot run commands", "a pushed key is no permission")
}

func TestExec_returnsExitStatusAndOutput_HOST2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, allowExec, func(o *host.Options) { o.RunDir = dir })
	done, err := r.exec(t, time.Minute, nil, "sh", "-c", "echo out; echo err >&2; cat; exit 3")
	require.NoError(t, err)
	require.Equal(t, agent.ExecResult{ExitCode: 3, Stdout: "out\n", Stderr: "err\n"}, done)

	done, err = r.exec(t, time.Minute, nil, "sh", "-c", "kill -TERM $$")
	require.NoError(t, err)
	require.Equal(t, agent.ExecResult{ExitCode: -1, Signal: int(syscall.SIGTERM)}, done)

	_, err = r.exec(t, time.Minute, nil, "no-such-program")
	require.ErrorContains(t, err, `"no-such-program": executable file not found`)
	_, err = r.exec(t, 0, nil, "true")
	require.ErrorContains(t, err, "timeout of 0s")
	_, err = r.exec(t, time.Minute, nil)
	require.ErrorContains(t, err, "want a command")

	done, err = r.exec(t, time.Minute, nil, "sh", "-c", "env; seq 100000")
	require.NoError(t, err)
	require.LessOrEqual(t, len(done.Stdout), agent.MaxExecOutput)
	require.True(t, strings.HasSuffix(done.Stdout, "\n99999\n100000\n"), "the last part is kept")
	require.Positive(t, done.DroppedBytes)
	left, err := filepath.Glob(filepath.Join(dir, "exec-*"))
	require.NoError(t, err)
	require.Empty(t, left, "no file stays")
}

func TestExec_killsTheProcessTreeAtTheDeadline_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t, allowExec)
	pids := filepath.Join(t.TempDir(), "pids")
	done, err := r.exec(t, time.Second, nil, "sh", "-c", "trap '' TERM; echo begun; sleep 600 & echo $$ $! >"+
		pids+"; wait")
	require.NoError(t, err)
	require.Equal(t, agent.ExecResult{ExitCode: -1, Signal: int(syscall.SIGKILL), TimedOut: true,
		Stdout: "begun\n"}, done)
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	pid := strings.Fields(string(text))
	require.Len(t, pid, 2)
	for _, p := range pid {
		require.False(t, isAlive(p), "pid %s", p)
	}
}

// isAlive reports whether a process has not ended. A zombie has.
func isAlive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestExec_passesTheRankToTheCommand_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t, allowExec)
	m := r.mesh(t, 2)
	r.create(t, m)
	id := m.ProcID(1, 0)
	done, err := r.exec(t, time.Minute, &id, "sh", "-c",
		"echo $CASTNET_RANK $CASTNET_PROC_ID $CASTNET_PID $CASTNET_PROC")
	require.NoError(t, err)
	pid := strconv.Itoa(r.states(t, m)[1].Proc.PID)
	require.Equal(t, "1 "+id.String()+" "+pid+"\n", done.Stdout, "it is no proc itself")
}

// patience bounds the start and the end of a command.
const patience = 20 * time.Second

// sleeper makes the host run a command with a child, both asleep, and returns once both run.
func (r *rig) sleeper(ctx context.Context, t *testing.T) (pids []string, failed <-chan error) {
	t.Helper()
	begun, ended := filepath.Join(t.TempDir(), "begun"), make(chan error, 1)
	go func() {
		script := "sleep 600 & echo $$ $! >" + begun + ".new; mv " + begun + ".new " + begun + "; wait"
		_, err := agent.Exec.Call(ctx, r.agent(),
			agent.ExecRequest{Command: []string{"sh", "-c", script}, Timeout: time.Minute})
		ended <- err
	}()
	var text []byte
	require.Eventually(t, func() (ok bool) {
		var err error
		text, err = os.ReadFile(begun)
		return err == nil
	}, patience, 5*time.Millisecond)
	pids = strings.Fields(string(text))
	require.Len(t, pids, 2)
	return pids, ended
}

func TestExec_endsWithTheHost_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t, allowExec)
	pids, failed := r.sleeper(t.Context(), t)
	r.close()
	require.ErrorContains(t, <-failed, "the host is stopping")
	for _, p := range pids {
		require.False(t, isAlive(p), "pid %s", p)
	}
}

func TestExec_endsWhenTheCallerCancels_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t, allowExec)
	ctx, cancel := context.WithCancel(t.Context())
	pids, failed := r.sleeper(ctx, t)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	for _, p := range pids {
		require.Eventually(t, func() bool { return !isAlive(p) }, patience, 5*time.Millisecond, "pid %s", p)
	}
}

func TestExec_localProcHostRefusesCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t, allowExec, local(t))
	_, err := r.exec(t, time.Minute, nil, "true")
	require.ErrorContains(t, err, "in its own process")
}
