package consultest

import "syscall"

// attributes has the kernel kill the agent when this process dies, even by kill -9.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
