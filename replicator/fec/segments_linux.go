package fec

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// segmentSize finds the size of the packets that a write is to be cut into, 0 if it is
// one packet (UDP_SEGMENT, udp(7)).
func segmentSize(oob []byte) int {
	for len(oob) > 0 {
		h, data, rest, err := controlMessage(oob)
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
		h, _, rest, err := controlMessage(oob[at:])
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

// askRows asks for datagrams that come one after the other to be given as a row, and
// reports whether they may be. Kernels before 5.0 refuse.
func askRows(c *net.UDPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	asked := false
	err = raw.Control(func(fd uintptr) { asked = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil })
	return err == nil && asked
}

// splitSize finds the size of the datagrams of a row, 0 if it is one, and gives the other
// control messages, moved together in place.
func splitSize(oob []byte) (size int, others []byte) {
	for at := 0; at < len(oob); {
		h, data, rest, err := controlMessage(oob[at:])
		if err != nil {
			break
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4 {
			size = int(int32(binary.NativeEndian.Uint32(data)))
			return size, append(oob[:at], rest...)
		}
		at = len(oob) - len(rest)
	}
	return size, oob
}

// controlMessage takes the first control message of oob apart. The package unix reads the
// header first, and only then looks whether there is one.
func controlMessage(oob []byte) (h unix.Cmsghdr, data, rest []byte, err error) {
	if len(oob) < unix.SizeofCmsghdr {
		return h, nil, nil, unix.EINVAL
	}
	return unix.ParseOneSocketControlMessage(oob)
}
