package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	stopTimeout  = 20 * time.Second
	pollInterval = time.Millisecond
)

// Suspend stops a process and waits until each of its threads has stopped, if the system reports
// that. The test must Resume it.
func Suspend(t testing.TB, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Eventually(t, func() bool { return hasStopped(pid) }, stopTimeout, pollInterval)
}

// Resume continues a suspended process.
func Resume(t testing.TB, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
}

func hasStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(path string) bool {
		text, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(text), ") ")
		return err == nil && !strings.HasPrefix(state, "T")
	})
}
