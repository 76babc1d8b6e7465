//go:build unix

package config

import "syscall"

// FilesLimit is how many files the process may have open, 0 if nothing says so.
func FilesLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur)
}
