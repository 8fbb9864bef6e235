package agent

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Exec runs a command as the user of the host and returns its result. Only host agents serve it,
// and only if their operator permits it.
var Exec = actor.NewEndpoint[Agent, ExecRequest, ExecResult]("exec")

// Bounds of ExecRequest and ExecResult.
const (
	MaxExecTimeout = time.Hour
	MaxExecOutput  = 64 << 10 // bytes of each output: its last part
)

// ExecRequest asks a host to run a command without input. On timeout the host kills the command and
// all its descendants.
type ExecRequest struct {
	Command []string      `cbor:"1,keyasint" json:"command"` // path or looked-up name, and arguments; no shell
	Timeout time.Duration `cbor:"2,keyasint" json:"timeout"` // from receipt at the host

	// Proc is the rank on whose behalf the command runs. The command finds its ID in the
	// environment.
	Proc *subjects.ProcID `cbor:"3,keyasint,omitempty" json:"proc,omitempty"`
}

// Check refuses an invalid request.
func (e ExecRequest) Check() error {
	if len(e.Command) == 0 || e.Command[0] == "" {
		return fmt.Errorf("exec: want a command")
	}
	if e.Timeout <= 0 || e.Timeout > MaxExecTimeout {
		return fmt.Errorf("exec %s: timeout of %s: want more than 0 and at most %s", e.Command[0], e.Timeout,
			MaxExecTimeout)
	}
	return nil
}

// ExecResult holds the exit status of a command and the end of its output.
type ExecResult struct {
	ExitCode int    `cbor:"1,keyasint" json:"exit_code"`                     // -1 after a signal
	Signal   int    `cbor:"2,keyasint,omitempty" json:"signal,omitempty"`    // the fatal signal
	TimedOut bool   `cbor:"3,keyasint,omitempty" json:"timed_out,omitempty"` // killed on timeout
	Stdout   string `cbor:"4,keyasint,omitempty" json:"stdout,omitempty"`
	Stderr   string `cbor:"5,keyasint,omitempty" json:"stderr,omitempty"`
	// earlier bytes of both outputs, discarded
	DroppedBytes int64 `cbor:"6,keyasint,omitempty" json:"dropped_bytes,omitempty"`
}

// ExecNotAllowedError refuses a command because the operator of the host has not permitted Exec.
type ExecNotAllowedError struct{ Host string } // the host's label

func (e *ExecNotAllowedError) Error() string {
	return fmt.Sprintf("host %s: cannot run commands: start hostd with --allow-exec, or set host.allow-exec: on",
		e.Host)
}
