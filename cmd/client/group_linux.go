package main

import "syscall"

// ownGroup keeps a terminal's signals from a child, and ends it when this program dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
