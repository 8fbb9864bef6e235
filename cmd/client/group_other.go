//go:build unix && !linux

package main

import "syscall"

// ownGroup keeps a terminal's signals from a child. Elsewhere than on Linux, a child outlives a
// program that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
