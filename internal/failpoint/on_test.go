//go:build failpoint

package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/failpoint"
)

const playVar = "CASTNET_FAILPOINT_TEST"

// TestMain plays a process with three hits of "there" on request.
func TestMain(m *testing.M) {
	if os.Getenv(playVar) == "" {
		os.Exit(m.Run())
	}
	failpoint.Hit("elsewhere")
	for range 3 {
		if !failpoint.Refused("there") {
			_, _ = os.Stdout.WriteString("y")
		}
	}
	for range 3 {
		failpoint.Hit("there")
		_, _ = os.Stdout.WriteString("x")
	}
	syscall.Exit(0)
}

func play(t *testing.T, value string) (hits int, err error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{playVar + "=1", failpoint.EnvVar + "=" + value}
	out, err := cmd.Output()
	return strings.Count(string(out), "x"), err
}

func TestRefused_failsTheGivenNumberOfTimes(t *testing.T) {
	for value, want := range map[string]int{"": 3, "there": 2, "there:2": 1, "there:9": 0, "elsewhere": 3} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = []string{playVar + "=1", failpoint.RefuseVar + "=" + value}
		out, err := cmd.Output()
		require.NoError(t, err, value)
		require.Equal(t, want, strings.Count(string(out), "y"), value)
	}
}

func TestHit_exitsAtTheNthHitOfTheNamedPoint(t *testing.T) {
	for value, want := range map[string]int{"there": 0, "there:1": 0, "there:3": 2} {
		hits, err := play(t, value)
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%s: %v", value, err)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), value)
		require.Equal(t, want, hits, value)
	}
}

func TestHit_ignoresOtherPoints(t *testing.T) {
	for _, value := range []string{"", "there:4", "nowhere"} {
		hits, err := play(t, value)
		require.NoError(t, err, value)
		require.Equal(t, 3, hits, value)
	}
}

func TestHit_refusesAMisspeltValue(t *testing.T) {
	for _, value := range []string{"There", "there:0", "there:x", "there:", ":1"} {
		_, err := play(t, value)
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, value)
		require.Contains(t, string(exit.Stderr), "is not NAME or NAME:N", value)
	}
}
