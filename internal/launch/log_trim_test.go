package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onDisk is what a file really takes.
func onDisk(t testing.TB, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return st.Blocks * 512
}

func TestLogTrim_floodIsDeliveredOrCountedWithinItsDiskLimit_LCH10(t *testing.T) {
	const n = 80_000
	spec := specOf(t, "flood", fmt.Sprint(n))
	spec.LogCap = minLogCap
	c := mustLaunch(t, newLauncher(t), spec)
	last, rounds, lost, bytes := -1, 0, int64(0), int64(0)
	require.NoError(t, c.Follow(t.Context(), FollowHandler{
		Line: func(_ Stream, line []byte) {
			i := n // of the last, which has no newline
			if text, ok := strings.CutPrefix(string(line), "line "); ok {
				var err error
				i, err = strconv.Atoi(text)
				require.NoError(t, err)
			}
			if lost == 0 {
				require.Equal(t, last+1, i)
			}
			require.Greater(t, i, last)
			last, bytes = i, bytes+int64(len(line)+1)
		},
		CaughtUp: func() { rounds++ },
		Dropped:  func(Stream, int64) { t.Error("the disk is not full") },
		Skipped:  func(_ Stream, bytes int64) { lost += bytes },
	}))
	require.Equal(t, n, last)
	require.Positive(t, rounds)
	info, err := os.Stat(c.StderrPath())
	require.NoError(t, err)
	require.Greater(t, info.Size(), 4*spec.LogCap, "offsets stay what they were")
	require.Equal(t, info.Size()+1, bytes+lost)
	require.LessOrEqual(t, onDisk(t, c.StderrPath()), 2*spec.LogCap+followChunkSize+2*blockSize)
	tail := c.StderrTail(3)
	require.Equal(t, []string{fmt.Sprint("line ", n-2), fmt.Sprint("line ", n-1), "no newline \uFFFD"}, tail)

	var late []string // who comes later, as the next hostd would, begins with a whole line
	require.NoError(t, Follow(t.Context(), c.StderrPath(), 0, c.Done(), func(line []byte) { late = append(late, string(line)) }))
	require.GreaterOrEqual(t, len(strings.Join(late, "\n")), int(spec.LogCap)-MaxLine)
	require.Equal(t, fmt.Sprint("line ", n-len(late)+1), late[0])
}

func TestLogTrim_slowReaderSkipsAndCountsLines_LCH10(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 3*minLogCap/16))
	fw, err := openFollower(f.Name(), 0, minLogCap)
	require.NoError(t, err)
	defer fw.close()
	told, lost := 0, int64(0)
	fw.lines.emit = func(line []byte) { require.Equal(t, "0123456789abcde", string(line)); told++ }
	fw.onSkipped = func(n int64) { lost += n }
	require.NoError(t, fw.catchUp(t.Context()))
	require.EqualValues(t, 2*minLogCap, lost)
	require.Equal(t, minLogCap/16, told)
	require.LessOrEqual(t, onDisk(t, f.Name()), int64(2*minLogCap+2*blockSize))
}

func TestLogTrim_cutsNoLine_LCH10(t *testing.T) {
	for _, size := range []int{1, 100, 4095, 4096, 4097, 20_000} {
		f := logOf(t, strings.Repeat(strings.Repeat("x", size-1)+"\n", 3*minLogCap/size+2))
		info, err := f.Stat()
		require.NoError(t, err)
		k := logKeeper{cap: minLogCap}
		freed, forced := k.trim(f, info.Size(), time.Time{})
		require.False(t, forced)
		require.Equal(t, freed, k.start)
		kept := info.Size() - k.start
		require.LessOrEqual(t, kept, int64(minLogCap))
		require.Greater(t, kept, int64(minLogCap-MaxLine))
		if size <= MaxLine {
			require.Zero(t, k.start%int64(size), "%d", size)
		}
		data, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.Len(t, data, int(info.Size()))
		require.Equal(t, int(kept), len(trimHole(data)), "%d", size)
	}
}

func logOf(t *testing.T, text string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteString(text)
	require.NoError(t, err)
	return f
}

func TestLogTrim_withoutHolePunchingRestartsTheFile_LCH10(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 2*minLogCap/16+1))
	k := logKeeper{cap: minLogCap, diskCheckedAt: time.Now()}
	freed, forced := k.truncateFile(f, 2*minLogCap+16)
	require.True(t, forced)
	require.EqualValues(t, 2*minLogCap+16, freed)
	require.True(t, k.restarted)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())

	follower := follower{file: f, offset: 2*minLogCap + 16, keeper: k, chunk: make([]byte, followChunkSize), onDropped: func(int64) {}}
	follower.trimFile()
	require.Zero(t, follower.offset)
	_, err = f.WriteAt([]byte("next\n"), 0)
	require.NoError(t, err)
	var got []string
	follower.lines.emit = func(line []byte) { got = append(got, string(line)) }
	require.NoError(t, follower.catchUp(t.Context()))
	require.Equal(t, []string{"next"}, got)
	require.Equal(t, []string{"next"}, tailLines(logFile{path: f.Name(), start: 100}, 5))
}

func TestF23_fullDiskIsTrimmedToTheTail(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 16<<10))
	k := logKeeper{cap: DefaultLogCap, isDiskFull: func(*os.File) bool { return true }}
	freed, forced := k.trim(f, 256<<10, time.Now())
	require.True(t, forced)
	require.EqualValues(t, 256<<10-tailBytes, freed)
	require.LessOrEqual(t, onDisk(t, f.Name()), int64(tailBytes+2*blockSize))
	freed, forced = k.trim(f, 256<<10, time.Now().Add(2*diskCheckInterval))
	require.False(t, forced || freed > 0, "the tail stays")
}

func TestF23_procWithoutALogFileRuns(t *testing.T) {
	for _, err := range []error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		require.True(t, isDiskError(fmt.Errorf("log file: %w", &os.PathError{Op: "open", Path: "x", Err: err})))
	}
	require.False(t, isDiskError(syscall.EMFILE), "that is ours")
	p := new(childFiles)
	log, err := p.openDevNull(syscall.EROFS)
	require.NoError(t, err)
	defer p.closeChildEnds()
	require.ErrorIs(t, log.err, syscall.EROFS)
	_, err = p.childEnds[0].Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	require.Empty(t, tailLines(log, 5))
}
