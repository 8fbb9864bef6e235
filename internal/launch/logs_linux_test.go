package launch

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/logfile"
)

// disk mounts a disk of a megabyte.
func disk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a small disk takes CAP_SYS_ADMIN")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// fill uses all of the disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(dir + "/ballast")
	require.NoError(t, err)
	defer f.Close()
	for buf := make([]byte, 4096); err == nil; {
		_, err = f.Write(buf)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
}

func TestF23_floodOnASmallDiskIsFollowedInOrder(t *testing.T) {
	const n = 100_000
	spec := specOf(t, "flood", fmt.Sprint(n))
	spec.LogDir = disk(t)
	c := mustLaunch(t, newLauncher(t), spec)
	var dropped int64
	last, told := -1, 0
	require.NoError(t, c.Output().Follow(t.Context(), c.Done(), logfile.Handler{
		Line: func(_ logfile.Stream, line []byte) {
			var i int
			if _, err := fmt.Sscanf(string(line), "line %d", &i); err == nil &&
				string(line) == fmt.Sprint("line ", i) && i > last {
				last = i
			}
			told++
		},
		Dropped: func(_ logfile.Stream, bytes int64) { dropped += bytes },
	}))
	require.Equal(t, 3, c.Exit().Code, "it ran to its end")
	require.Positive(t, told)
	require.LessOrEqual(t, onDisk(t, stderrOf(c)), int64(1<<20))
	t.Logf("%d of %d lines were emitted, the newest is %d; %d bytes were freed", told, n, last, dropped)
}

func TestF23_fullDiskStillRunsAProc(t *testing.T) {
	spec := specOf(t, "ready")
	spec.LogDir = disk(t)
	fill(t, spec.LogDir)
	c := mustLaunch(t, newLauncher(t), spec)
	c.Terminate(patience)
	require.NoError(t, c.Output().Follow(t.Context(), c.Done(),
		logfile.Handler{Line: func(logfile.Stream, []byte) {}}))
	require.Equal(t, int(unix.SIGTERM), exitOf(t, c).Signal)
}

func TestF23_readOnlyDiskRunsAProcAndReportsLostLogs(t *testing.T) {
	spec := specOf(t, "flood", "10")
	spec.LogDir = disk(t)
	require.NoError(t, unix.Mount("", spec.LogDir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	c := mustLaunch(t, newLauncher(t), spec)
	err := c.Output().Follow(t.Context(), c.Done(), logfile.Handler{Line: func(logfile.Stream, []byte) {}})
	require.ErrorIs(t, err, unix.EROFS)
	require.ErrorContains(t, err, "stderr")
	require.Equal(t, 3, c.Exit().Code)
	require.ErrorIs(t, c.Output().Err(), unix.EROFS)
	require.Empty(t, stderrOf(c))
	require.Empty(t, c.Output()[logfile.Stderr].Tail(5))
}
