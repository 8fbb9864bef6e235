package faults

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
)

// F23. The state directory and the logs are on a disk. It becomes full, and then read-only.
func TestF23_fullDiskFailsOnlyKeptLaunches(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F23", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		disk := filepath.Join(m.dir, "state")
		require.NoError(t, os.Mkdir(disk, 0o700))
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("no disk of its own can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
		m.start()
		old := m.mesh(1, kept)
		m.spawnMesh(old)
		for _, broken := range []struct {
			name, why string
			with      func(t *testing.T, disk string) (mend func())
		}{{"full", "no space left on device", fill}, {"read-only", "read-only file system", freeze}} {
			mend := broken.with(t, disk)
			d := m.mesh(1, kept)
			o := m.spawnMesh(d)
			require.Equal(t, agent.Failed, o[0].Status.Phase, broken.name)
			require.Contains(t, o[0].Status.Reason, broken.why)
			require.Contains(t, o[0].Status.Reason, "state")
			f.count("refused", 1)
			plain := m.mesh(1, nil)
			require.Equal(t, agent.Running, m.spawnMesh(plain)[0].Status.Phase, "others are launched all the same")
			require.Equal(t, agent.Running, m.states(old)[0].Status.Phase, "running procs go on")
			require.Less(t, m.stopMesh(plain, time.Second), patience)
			mend()
			require.Equal(t, agent.Running, m.spawnMesh(m.mesh(1, kept))[0].Status.Phase, "again, once there is room")
		}
		require.Len(t, m.processes(), 4)
		f.count("unsupervised procs", 0)
		f.count("hung stops", 0)
		m.shutdown()
		left, err := filepath.Glob(filepath.Join(disk, "*.proc.json*"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// fill uses all the free space.
func fill(t *testing.T, disk string) (empty func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(disk, "ballast"))
	require.NoError(t, err)
	for block := make([]byte, 4<<10); err == nil; {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, file.Close())
	return func() { require.NoError(t, os.Remove(file.Name())) }
}

// freeze makes a disk read-only for files opened later. A disk with open files cannot be remounted
// as a whole.
func freeze(t *testing.T, disk string) (thaw func()) {
	t.Helper()
	require.NoError(t, syscall.Mount(disk, disk, "", syscall.MS_BIND, ""))
	require.NoError(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	return func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) }
}
