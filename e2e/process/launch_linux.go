package process

import "syscall"

// attributes has the kernel kill the process when this one dies, even by kill -9.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
