package testpage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// Reader is a person with the page, at a terminal with bash.
type Reader struct {
	Dir string
	Env []string
	// Programs returns, by language, the command that runs the text of a program.
	Programs map[string]func(text string) string

	state string // commands that restore the folder and variables of the shell
}

// ready is the line of a program that others may use from now on.
var ready = regexp.MustCompile(`hostd is ready|Ctrl-C stops it|new events follow|Server is ready|Listening on|Subscribing on`)

// clock is the time stamp of the nats command before a line.
var clock = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)

// Run runs the blocks of a page in their order, and compares what they print.
func (r *Reader) Run(t *testing.T, p Page) {
	t.Helper()
	for _, b := range p.Blocks {
		program, isProgram := r.Programs[b.Language]
		switch {
		case b.File != "":
			path := b.File
			if !filepath.IsAbs(path) {
				path = filepath.Join(strings.TrimSpace(r.run(t, "pwd")), path)
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(b.Text+"\n"), 0o600))
		case b.Language == "text", b.Language == "go":
		case b.Language == "sh" && b.Stays:
			for line := range strings.SplitSeq(b.Text, "\n") {
				r.start(t, line, b.Prints)
			}
		case b.Language == "sh":
			b.requirePrinted(t, r.run(t, b.Text))
		case isProgram && b.Stays:
			r.start(t, program(b.Text), b.Prints)
		case isProgram:
			b.requirePrinted(t, r.run(t, program(b.Text)))
		default:
			require.Fail(t, "a block that no reader can use", "%q:\n%s", b.Language, b.Text)
		}
	}
}

func (b Block) requirePrinted(t *testing.T, out string) {
	t.Helper()
	for _, line := range b.Prints {
		require.Regexp(t, pattern(line), out, "the page says that this prints %q:\n%s", line, b.Text)
	}
}

// run runs commands in the shell of the page, and returns their output.
func (r *Reader) run(t *testing.T, commands string) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithTimeout(t.Context(), 5*testkit.Patience) // it may compile
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		r.state+"set -a\n"+commands+"\n{ export -p; printf 'cd %q\\n' \"$PWD\"; } > "+state)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", commands, out)
	after, err := os.ReadFile(state)
	require.NoError(t, err)
	r.state = string(after)
	return clock.ReplaceAllString(string(out), "")
}

// start runs a command in a terminal of its own until the page ends, and waits for its output, or
// until it is ready. The page may end it earlier.
func (r *Reader) start(t *testing.T, command string, prints []string) {
	t.Helper()
	cmd, said := exec.Command("bash", "-c", r.state+"exec "+command), &testkit.Transcript{}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := testkit.Start(t, cmd)
	t.Cleanup(func() {
		if p.Process.Signal(syscall.SIGTERM) != nil {
			return // the page has ended it
		}
		code := p.Exit(t)
		how, _ := p.ProcessState.Sys().(syscall.WaitStatus)
		byTerm := how.Signaled() && how.Signal() == syscall.SIGTERM // which ends programs that are not ours
		require.True(t, code == 0 || byTerm, "%s ended with %s: %s", command, p.ProcessState, said)
	})
	testkit.Until(t, "output of "+command, func() bool {
		select {
		case <-p.Ended():
			require.FailNow(t, "it has ended", "%s:\n%s", command, said)
		default:
		}
		out := clock.ReplaceAllString(said.String(), "")
		for _, line := range prints {
			if !pattern(line).MatchString(out) {
				return false
			}
		}
		return len(prints) > 0 || ready.MatchString(out)
	})
}
