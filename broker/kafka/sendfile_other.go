//go:build !linux

package kafka

import (
	"net"
	"syscall"
)

// canSendFile tells if sendFile does something here.
const canSendFile = false

func sendFile(*net.TCPConn, syscall.RawConn, int64, int) error { return errNoSendFile }
