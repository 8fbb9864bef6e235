package main

import "syscall"

// sysProcAttr gives a hostd its own process group, so Ctrl-C reaches only this process, which stops
// the hostds in order. If this process is killed, the kernel ends the hostd (DEMO-1).
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
