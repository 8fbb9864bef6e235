package heldmesh

import (
	"syscall"
)

// ownProcessGroup shields a child from the terminal's signals and ends the child with this program.
func ownProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
