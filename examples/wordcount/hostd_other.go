//go:build !linux

package main

import "syscall"

// sysProcAttr leaves a hostd in this process group. Without a death signal from the kernel, at
// least Ctrl-C reaches it.
func sysProcAttr() *syscall.SysProcAttr { return nil }
