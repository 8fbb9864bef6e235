package main

import "syscall"

// sysProcAttr puts a hostd into a process group of its own, so that Ctrl-C reaches only us and the
// order of stopping is ours, and has the kernel end it when we are killed (DEMO-1).
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
