package launch

import (
	"fmt"
	"syscall"
	"time"
)

// Exit is the exit status of a process.
type Exit struct {
	Code       int       // the exit code; -1 after a signal
	Signal     int       // the signal that killed it; 0 = none
	Core       bool      // it left a core dump
	OOM        bool      // the kernel killed it, or a descendant, for lack of memory
	Memory     int64     // the memory limit in force; 0 = none
	Unknown    bool      // its end was not observed; Code is -1
	Survivors  bool      // a descendant survives SIGKILL
	At         time.Time // when the end was observed
	StderrTail []string  // its last lines on stderr
}

func newExit(status syscall.WaitStatus, known bool, at time.Time) Exit {
	switch {
	case !known:
		return Exit{Code: -1, Unknown: true, At: at}
	case status.Signaled():
		return Exit{Code: -1, Signal: int(status.Signal()), Core: status.CoreDump(), At: at}
	default:
		return Exit{Code: status.ExitStatus(), At: at}
	}
}

// Clean reports an exit with code 0.
func (e Exit) Clean() bool { return e.Code == 0 && e.Signal == 0 && !e.Unknown }

// String describes the exit, such as "exited with code 1", "killed by signal 9 (killed)" or "killed
// by the kernel: out of memory (limit 64 MiB)".
func (e Exit) String() string {
	text := e.describeEnd()
	if e.OOM && e.Signal != int(syscall.SIGKILL) {
		text += ", and the kernel killed a process that it started: out of memory" + e.limitSuffix()
	}
	if e.Survivors {
		text += "; processes that it started survive SIGKILL"
	}
	return text
}

func (e Exit) limitSuffix() string {
	if e.Memory == 0 {
		return ""
	}
	return " (limit " + formatBytes(e.Memory) + ")"
}

func (e Exit) describeEnd() string {
	switch {
	case e.Unknown:
		return "ended with an unknown status"
	case e.OOM && e.Signal == int(syscall.SIGKILL):
		return "killed by the kernel: out of memory" + e.limitSuffix()
	case e.Signal != 0 && e.Core:
		return fmt.Sprintf("killed by signal %d (%v), core dumped", e.Signal, syscall.Signal(e.Signal))
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%v)", e.Signal, syscall.Signal(e.Signal))
	default:
		return fmt.Sprintf("exited with code %d", e.Code)
	}
}
