//go:build darwin || freebsd

package fec

// These systems have no segmentation offload for UDP.

func segmentSize([]byte) int { return 0 }

func withoutSegments(oob []byte) []byte { return oob }
