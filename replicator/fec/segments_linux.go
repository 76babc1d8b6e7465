package fec

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// segmentSize finds the size of the packets that a write is to be cut into, 0 if it is
// one packet (UDP_SEGMENT, udp(7)).
func segmentSize(oob []byte) int {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		if isSegment(&h) && len(data) >= 2 {
			return int(binary.NativeEndian.Uint16(data))
		}
		oob = rest
	}
	return 0
}

func isSegment(h *unix.Cmsghdr) bool {
	return h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_SEGMENT
}

// withoutSegments gives control messages without that one. The result is part of oob
// or a copy.
func withoutSegments(oob []byte) []byte {
	for at := 0; at < len(oob); {
		h, _, rest, err := unix.ParseOneSocketControlMessage(oob[at:])
		if err != nil {
			return oob
		}
		next := len(oob) - len(rest)
		if isSegment(&h) {
			return append(append(make([]byte, 0, len(oob)), oob[:at]...), rest...)
		}
		at = next
	}
	return oob
}
