//go:build unix && !linux

package heldmesh

import "syscall"

// ownProcessGroup shields a child from the terminal's signals. Outside Linux a child outlives a
// killed program.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
