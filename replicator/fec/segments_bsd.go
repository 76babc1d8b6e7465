//go:build darwin || freebsd

package fec

import "net"

// These systems have no segmentation offload for UDP, neither way.

func segmentSize([]byte) int { return 0 }

func withoutSegments(oob []byte) []byte { return oob }

func askRows(*net.UDPConn) bool { return false }

func splitSize(oob []byte) (int, []byte) { return 0, oob }
