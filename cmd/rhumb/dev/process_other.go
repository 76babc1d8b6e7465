//go:build !linux

package dev

import "syscall"

// childAttributes puts each region into a process group of its own: Ctrl-C at
// the terminal reaches only this process, which stops them in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
