//go:build !linux

package relay

import "net"

func askMerged(*net.UDPConn)             {}
func mergedSize([]byte) int              { return 0 }
func sizeControl(b []byte, _ int) []byte { return b }

func refusesRows(error) bool { return true }

const mergeable = false
