package agent

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Exec is what only host agents serve, and only those whose operator allows it: it runs a command, as the user of
// the host, and answers how that ended.
var Exec = actor.NewEndpoint[Agent, Execution, Executed]("exec")

// What an Execution may ask for, and what an Executed holds.
const (
	MaxExec       = time.Hour
	MaxExecOutput = 64 << 10 // bytes of each output: the end of it
)

// Execution asks a host to run a command. It reads nothing, and is killed with all that it started when its time is over.
type Execution struct {
	Command []string      `cbor:"1,keyasint" json:"command"` // a path, or a name that the host looks up, and arguments; no shell
	Within  time.Duration `cbor:"2,keyasint" json:"within"`  // from when the host hears of it

	// Proc is the rank of a mesh on whose behalf it runs: the command finds which it is in its environment.
	Proc *subjects.ProcID `cbor:"3,keyasint,omitempty" json:"proc,omitempty"`
}

// Check refuses what cannot be run.
func (e Execution) Check() error {
	switch {
	case len(e.Command) == 0 || e.Command[0] == "":
		return fmt.Errorf("exec: no command")
	case e.Within <= 0 || e.Within > MaxExec:
		return fmt.Errorf("exec %s: within %s: want more than 0 and at most %s", e.Command[0], e.Within, MaxExec)
	}
	return nil
}

// Executed says how a command ended, and what it printed last.
type Executed struct {
	Code   int    `cbor:"1,keyasint" json:"exit_code"`                  // -1 when it did not exit by itself
	Signal int    `cbor:"2,keyasint,omitempty" json:"signal,omitempty"` // that killed it
	Late   bool   `cbor:"3,keyasint,omitempty" json:"late,omitempty"`   // its time was over
	Stdout string `cbor:"4,keyasint,omitempty" json:"stdout,omitempty"`
	Stderr string `cbor:"5,keyasint,omitempty" json:"stderr,omitempty"`
	Lost   int64  `cbor:"6,keyasint,omitempty" json:"lost,omitempty"` // bytes printed before that, of both outputs
}

// ExecNotAllowedError refuses a command on a host whose operator has not allowed any.
type ExecNotAllowedError struct{ Host string } // its label

func (e *ExecNotAllowedError) Error() string {
	return fmt.Sprintf("host %s: running commands is not allowed here: its operator allows it with hostd --allow-exec, or host.exec: on", e.Host)
}
