package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky is a package with two tests: one fails in every second run, the other never.
const flaky = `package flaky

import ("os"; "testing")

func TestOdd(t *testing.T) {
	runs, _ := os.ReadFile("runs")
	if err := os.WriteFile("runs", append(runs, 'x'), 0o600); err != nil { t.Fatal(err) }
	t.Run("part", func(t *testing.T) { if len(runs)%2 == 1 { t.Fatal("it is odd") } })
}

func TestEnds(t *testing.T) { if os.Getenv("ENDS") != "" { os.Exit(7) } }

func TestWaits(t *testing.T) {
	if path := os.Getenv("WAITS"); path != "" {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil { t.Fatal(err) }
		f.WriteString(pid())
		f.Close()
		select {}
	}
}
`

const pid = `package flaky

import ("os"; "strconv")

func pid() string { return strconv.Itoa(os.Getpid()) }
`

// inFlaky changes to a module with package flaky and package sound.
func inFlaky(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"go.mod": "module flaky\n\ngo 1.26\n", "flaky_test.go": flaky, "pid_test.go": pid,
		"sound/sound_test.go": "package sound\n\nimport \"testing\"\n\nfunc TestSound(*testing.T) {}\n",
		"none/none.go":        "package none\n",
	} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod -ldflags=-s") // without symbols, linking takes half as long
	t.Setenv("TMPDIR", t.TempDir())             // what is kept goes with the test
}

func TestStress_countsFailuresByTestAndRound(t *testing.T) {
	inFlaky(t)
	var out bytes.Buffer
	require.Equal(t, exitFailed, command(t.Context(),
		[]string{"-n", "4", "-busy", "1", "-p", "2", "-parallel", "3", "-run", "Odd|Sound", "./..."}, &out))
	for _, row := range []string{`flaky +4 +2 +500\.0`, `  TestOdd +4 +2 +500\.0`, `flaky/sound +4 +0 +0\.0`} {
		require.Regexp(t, "(?m)^"+row+"$", out.String())
	}
	require.Contains(t, out.String(), "4 of 4 rounds, 2 failed, ")
	require.NotContains(t, out.String(), "none", "a package without tests")
	kept := regexp.MustCompile(`what failed runs said: (.*)`).FindStringSubmatch(out.String())
	require.NotNil(t, kept, out.String())
	files, err := filepath.Glob(filepath.Join(kept[1], "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(kept[1], "run-2.txt"), filepath.Join(kept[1], "run-4.txt")}, files)
	said, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(said), "it is odd")
}

func TestStress_passesAndLeavesNoFile(t *testing.T) {
	inFlaky(t)
	require.Equal(t, exitPassed, command(t.Context(), []string{"-n", "2", "./sound"}, io.Discard))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestStress_reportsAProcessThatFailsWithoutATest(t *testing.T) {
	inFlaky(t)
	t.Setenv("ENDS", "yes")
	var out bytes.Buffer
	require.Equal(t, exitFailed, command(t.Context(), []string{"-n", "1", "-run", "Ends", "."}, &out))
	require.Contains(t, out.String(), "no test, but the process: exit status 7")
}

func TestStress_interruptEndsARun(t *testing.T) {
	inFlaky(t)
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	t.Setenv("WAITS", path)
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	code := make(chan int)
	go func() { code <- command(ctx, []string{"-busy", "1", "-run", "Waits", "."}, &out) }()
	said, err := os.ReadFile(path) // until the test closes it
	require.NoError(t, err)
	interrupt()
	require.Equal(t, exitInterrupted, <-code)
	pid, err := strconv.Atoi(string(said))
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the test still runs")
	require.Regexp(t, `(?m)^flaky +0 +0 +0\.0$`, out.String())
}

func TestStress_refusesInvalidArguments(t *testing.T) {
	inFlaky(t)
	for want, args := range map[string]string{
		"want -n, -p and -timeout above 0": "-n 0",
		"no package with tests":            "./none",
		"not defined: -nosuch":             "-nosuch",
		"directory not found":              "./nowhere",
	} {
		var out bytes.Buffer
		require.Equal(t, exitUsage, command(t.Context(), strings.Fields(args), &out), args)
		require.Contains(t, out.String(), want)
	}
}

func TestFailures_parseTheOutput(t *testing.T) {
	for said, want := range map[string][]string{
		"ok": nil,
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestC (0.00s)\nFAIL\n": {"TestA",
			"TestC"},
		"panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\t\tTestB/c (0s)\n\ngoroutine 1 " +
			"[running]:\n\t\tnothing\n": {
			"TestA (timed out)", "TestB (timed out)"},
		"--- FAIL: TestA (0.00s)\npanic: boom [recovered]\n": {"TestA"},
	} {
		require.Equal(t, want, failedTests(said), said)
	}
}
