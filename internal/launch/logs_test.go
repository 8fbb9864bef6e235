package launch

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/logfile"
)

// onDisk is the allocated size of a file.
func onDisk(t testing.TB, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return st.Blocks * 512
}

func TestLogs_floodIsDeliveredOrCountedWithinItsDiskLimit_LOG1(t *testing.T) {
	const n = 80_000
	spec := specOf(t, "flood", fmt.Sprint(n))
	spec.LogCap = 128 << 10
	c := mustLaunch(t, newLauncher(t), spec)
	last, rounds, lost, bytes := -1, 0, int64(0), int64(0)
	require.NoError(t, c.Output().Follow(t.Context(), c.Done(), logfile.Handler{
		Line: func(_ logfile.Stream, line []byte) {
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
		Dropped:  func(logfile.Stream, int64) { t.Error("the disk is not full") },
		Skipped:  func(_ logfile.Stream, bytes int64) { lost += bytes },
	}))
	require.Equal(t, n, last)
	require.Positive(t, rounds)
	info, err := os.Stat(stderrOf(c))
	require.NoError(t, err)
	require.Greater(t, info.Size(), 4*spec.LogCap, "offsets are unchanged")
	require.Equal(t, info.Size()+1, bytes+lost)
	require.LessOrEqual(t, onDisk(t, stderrOf(c)), 2*spec.LogCap+40<<10)
	tail := c.Output()[logfile.Stderr].Tail(3)
	require.Equal(t, []string{fmt.Sprint("line ", n-2), fmt.Sprint("line ", n-1), "no newline \uFFFD"}, tail)

	var late []string // a later reader, such as the next hostd, begins with a whole line
	require.NoError(t, c.Output().Follow(t.Context(), c.Done(), logfile.Handler{
		Line: func(_ logfile.Stream, line []byte) { late = append(late, string(line)) },
	}))
	require.GreaterOrEqual(t, len(strings.Join(late, "\n")), int(spec.LogCap)-logfile.MaxLine)
	require.Equal(t, fmt.Sprint("line ", n-len(late)+1), late[0])
}

func TestF23_procWithoutALogFileRuns(t *testing.T) {
	for _, err := range []error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		require.True(t, isDiskError(fmt.Errorf("log file: %w", &os.PathError{Op: "open", Path: "x", Err: err})))
	}
	require.False(t, isDiskError(syscall.EMFILE), "not an error of the disk")
	p := new(childFiles)
	log, err := p.openDevNull(syscall.EROFS)
	require.NoError(t, err)
	defer p.closeChildEnds()
	require.ErrorIs(t, log.Err, syscall.EROFS)
	_, err = p.childEnds[0].Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	require.Empty(t, log.Tail(5))
}
