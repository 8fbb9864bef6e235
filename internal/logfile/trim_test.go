package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onDisk is the allocated size of a file.
func onDisk(t testing.TB, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return st.Blocks * 512
}

func TestLogTrim_slowReaderSkipsAndCountsLines_LOG1(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 3*minCap/16))
	told, lost := 0, int64(0)
	fw, err := openFollower(File{Path: f.Name(), Cap: minCap}, Stdout, Handler{
		Line:    func(_ Stream, line []byte) { require.Equal(t, "0123456789abcde", string(line)); told++ },
		Skipped: func(_ Stream, n int64) { lost += n },
	})
	require.NoError(t, err)
	defer fw.close()
	require.NoError(t, fw.catchUp(t.Context()))
	require.EqualValues(t, 2*minCap, lost)
	require.Equal(t, minCap/16, told)
	require.LessOrEqual(t, onDisk(t, f.Name()), int64(2*minCap+2*blockSize))
}

func TestLogTrim_cutsNoLine_LOG1(t *testing.T) {
	for _, size := range []int{1, 100, 4095, 4096, 4097, 20_000} {
		f := logOf(t, strings.Repeat(strings.Repeat("x", size-1)+"\n", 3*minCap/size+2))
		info, err := f.Stat()
		require.NoError(t, err)
		k := trimmer{file: f, cap: minCap}
		freed, forced := k.trim(info.Size(), time.Time{})
		require.False(t, forced)
		require.Equal(t, freed, k.start)
		kept := info.Size() - k.start
		require.LessOrEqual(t, kept, int64(minCap))
		require.Greater(t, kept, int64(minCap-MaxLine))
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

func TestLogTrim_withoutHolePunchingRestartsTheFile_LOG1(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 2*minCap/16+1))
	k := trimmer{file: f, cap: minCap, diskCheckedAt: time.Now()}
	freed, forced := k.truncateFile(2*minCap + 16)
	require.True(t, forced)
	require.EqualValues(t, 2*minCap+16, freed)
	require.True(t, k.restarted)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())

	follower := follower{file: f, offset: 2*minCap + 16, trimmer: k, chunk: make([]byte, followChunkSize)}
	follower.trim()
	require.Zero(t, follower.offset)
	_, err = f.WriteAt([]byte("next\n"), 0)
	require.NoError(t, err)
	var got []string
	follower.lines.emit = func(line []byte) { got = append(got, string(line)) }
	require.NoError(t, follower.catchUp(t.Context()))
	require.Equal(t, []string{"next"}, got)
	require.Equal(t, []string{"next"}, File{Path: f.Name(), Start: 100}.Tail(5))
}

func TestF23_fullDiskIsTrimmedToTheTail(t *testing.T) {
	f := logOf(t, strings.Repeat("0123456789abcde\n", 16<<10))
	k := trimmer{file: f, cap: DefaultCap, isDiskFull: func(*os.File) bool { return true }}
	freed, forced := k.trim(256<<10, time.Now())
	require.True(t, forced)
	require.EqualValues(t, 256<<10-tailBytes, freed)
	require.LessOrEqual(t, onDisk(t, f.Name()), int64(tailBytes+2*blockSize))
	freed, forced = k.trim(256<<10, time.Now().Add(2*diskCheckInterval))
	require.False(t, forced || freed > 0, "the tail stays")
}
