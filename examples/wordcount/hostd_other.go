//go:build !linux

package main

import "syscall"

// sysProcAttr leaves a hostd in our process group: with no kernel to end it when we are killed, at
// least Ctrl-C reaches it.
func sysProcAttr() *syscall.SysProcAttr { return nil }
