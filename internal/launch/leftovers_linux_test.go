package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
)

// ownPlace is a cgroup for the test's launchers only, so no other one kills leftovers there.
func ownPlace(t *testing.T) string {
	base := filepath.Dir(filepath.Dir(mustLaunch(t, needCgroups(t), specOf(t, "ready")).handle.tree.Dir))
	dir := filepath.Join(base, "test."+strconv.Itoa(os.Getpid()))
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, (&cgroup.Group{Dir: dir}).Remove(0)) })
	return dir
}

// The search for readers of a lifeline repeats until the kernel reports none. One scan of /proc may
// miss a reader, as it omits this process here.
func TestKillLeftovers_retriesUntilAKeptChildIsGone(t *testing.T) {
	l := New(Options{StateDir: t.TempDir(), Cgroup: cgroup.None, KillWait: 100 * time.Millisecond})
	defer func() { require.NoError(t, l.Close()) }()
	path := filepath.Join(l.stateDir, "kept"+lifelineSuffix)
	require.NoError(t, unix.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	_, err = l.KillLeftovers()
	require.ErrorContains(t, err, "cannot kill the reader of "+path)
	require.FileExists(t, path, "to prevent a second launch")

	there := make(chan bool, 1)
	time.AfterFunc(20*time.Millisecond, func() {
		_, err := os.Stat(path)
		_ = reader.Close()
		there <- err == nil
	})
	_, err = l.KillLeftovers()
	require.NoError(t, err)
	require.True(t, <-there, "it was there as long as it had a reader")
	require.NoFileExists(t, path)
}

// For a moment of each exec a process has no environment, and then an empty one while its parts are
// counted. A look at this process meets the first case every few times, and the second now and
// then.
func TestLeftovers_areFoundDuringAnExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again.sh")
	require.NoError(t, os.WriteFile(script, []byte(`exec /bin/sh "$0"`), 0o600))
	p := exec.Command("/bin/sh", script)
	for i := range 5000 {
		p.Env = append(p.Env, "V"+strconv.Itoa(i)+"=")
	}
	p.Env = append(p.Env, markerVar+"=launcher.1")
	require.NoError(t, p.Start())
	defer func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	}()
	for range 1000 {
		marker, found := markerOf(p.Process.Pid)
		require.True(t, found)
		require.Equal(t, markerVar+"=launcher.1", marker)
	}
	bare := exec.Command("sleep", "600")
	bare.Env = []string{}
	require.NoError(t, bare.Start())
	began := time.Now()
	_, found := markerOf(bare.Process.Pid)
	require.False(t, found, "it has emptied its environment")
	require.Less(t, time.Since(began), execTimeout, "without a wait for the exec")
	require.NoError(t, bare.Process.Kill())
	_ = bare.Wait()
}
