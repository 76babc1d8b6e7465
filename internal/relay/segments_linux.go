package relay

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux takes and gives several datagrams of one size in one call, if they follow
// each other on the same way (UDP_SEGMENT and UDP_GRO, udp(7)). A relay is in the
// middle of fast links: a call for each datagram was most of what it cost.

// askMerged asks for datagrams that arrive together to be given together. Kernels
// before 5.0 refuse: then they come one by one.
func askMerged(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_GRO, 1) })
}

// mergedSize gives the size of the datagrams that came together, 0 if it was one.
func mergedSize(oob []byte) int {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		if h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4 {
			return int(*(*int32)(unsafe.Pointer(&data[0])))
		}
		oob = rest
	}
	return 0
}

// mergeable tells that a row of datagrams can be sent in one call.
const mergeable = true

// sizeControl appends the control message that says where datagrams that are sent
// together are cut.
func sizeControl(oob []byte, size int) []byte {
	at, space := len(oob), unix.CmsgSpace(2)
	oob = append(oob, make([]byte, space)...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[at]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&oob[at+unix.CmsgLen(0)])) = uint16(size)
	return oob
}

// refusesRows tells that a kernel, or the device behind the socket, cannot cut what is
// sent together.
func refusesRows(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.EOPNOTSUPP)
}
