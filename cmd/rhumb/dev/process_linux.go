package dev

import "syscall"

// childAttributes has the kernel kill the regions when this process dies, even
// by kill -9, so that no region is left behind on its ports. Each region is in a
// process group of its own: Ctrl-C at the terminal reaches only this process,
// which stops them in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
