package host

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func opened(t *testing.T, dir string) *store {
	t.Helper()
	s, err := openStore(dir, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.close() }) // it may be closed
	return s
}

// someKept is the record of a proc.
func someKept(t *testing.T, rank, gen int) procRecord {
	t.Helper()
	host, err := subjects.ParseHostID("a-0000000000001")
	require.NoError(t, err)
	id, err := subjects.ParseMeshID("m-0000000000002")
	require.NoError(t, err)
	return procRecord{
		Mesh: agent.Mesh{
			ID: id, Extent: shape.Of("gpu", 2), Hosts: []subjects.HostID{host}, PerHost: 2,
			Owner:   host.Proc().Actor("owner"),
			Command: agent.Command{Path: agent.Builtin}, Keep: true,
		},
		Rank: rank, Gen: gen, Nonce: "nonce", Lease: time.Minute,
		Process: launch.Record{Name: "x", PID: 7, Kept: true},
	}
}

func TestStateDir_admitsOneHostAtATime_HOST10(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	_, err := openStore(dir, zerolog.Nop())
	require.ErrorContains(t, err, "another hostd uses it (pid "+strconv.Itoa(os.Getpid())+")")
	require.IsType(t, &StateError{}, err)
	require.NoError(t, s.close())
	opened(t, dir)
}

func TestStateError_isTheSameForEachRank(t *testing.T) {
	s := opened(t, t.TempDir())
	pending, err := s.reserve(someKept(t, 0, 0))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(s.dir))
	failed := []error{pending.record(someKept(t, 0, 0))}
	for rank := range 2 {
		_, err := s.reserve(someKept(t, rank, 0))
		failed = append(failed, err)
	}
	for _, err := range failed {
		require.EqualError(t, err, "state directory "+s.dir+": no such file or directory")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// When a host is killed, a forked child holds the lock, too, until it has executed its program.
func TestStateDir_awaitsTheLockOfADeadHost_HOST10(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	dir := t.TempDir()
	dead := opened(t, dir)
	require.NoError(t, os.WriteFile(dead.lock.Name(), fmt.Appendln(nil, gone.Process.Pid), 0o600))
	executed := time.AfterFunc(20*time.Millisecond, func() { _ = dead.close() })
	defer executed.Stop()
	opened(t, dir)
}

func TestStateDir_restartedHostKeepsItsIDWithHigherNumbers_HOST10(t *testing.T) {
	s := opened(t, t.TempDir())
	now := packetEpoch.Add(time.Hour)
	first, err := s.loadIdentity("a", now)
	require.NoError(t, err)
	require.Equal(t, "a", first.ID.Label())
	later, err := s.loadIdentity("a", now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, first.ID, later.ID)
	require.Equal(t, first.FirstPacket+16*3_600_000, later.FirstPacket)
	back, err := s.loadIdentity("a", packetEpoch.Add(-time.Hour))
	require.NoError(t, err)
	require.Greater(t, back.FirstPacket, later.FirstPacket, "also when the clock was set back")
	_, err = s.loadIdentity("b", now)
	require.ErrorContains(t, err, `it belongs to host "a"`)
}

func TestStateDir_loadsCompleteRecordsOnly_HOST10(t *testing.T) {
	s := opened(t, t.TempDir())
	for _, k := range []procRecord{someKept(t, 1, 1), someKept(t, 0, 0), someKept(t, 1, 0)} {
		d, err := s.reserve(k)
		require.NoError(t, err)
		require.NoError(t, d.record(k))
		s.offsetRecorder(k.procID())(logfile.Stderr, 9)
	}
	_, err := s.reserve(someKept(t, 0, 5)) // its host dies here
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "broken"+procSuffix), []byte("{"), 0o600))
	want := []procRecord{someKept(t, 0, 0), someKept(t, 1, 0), someKept(t, 1, 1)}
	for i := range want {
		want[i].Process.Output[logfile.Stderr].Resume = 9
	}
	require.Equal(t, want, s.loadProcs(), "generations in their order")
	for _, k := range want {
		s.removeProc(k.procID())
	}
	require.Empty(t, s.loadProcs())
	left, err := filepath.Glob(filepath.Join(s.dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(s.dir, "broken"+procSuffix), filepath.Join(s.dir, lockName)}, left,
		"unreadable records stay")
}
