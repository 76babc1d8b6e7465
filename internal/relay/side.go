package relay

import (
	"net"
	"sync/atomic"
)

const (
	// maxRow is how many datagrams a line delivers at once at most: as many as
	// Linux sends in one call.
	maxRow = 64
	// maxRowBytes is the largest UDP payload over IPv4.
	maxRowBytes = 65507
)

// side is a socket of a relay.
type side struct {
	*net.UDPConn
	single atomic.Bool // the kernel does not send several datagrams in one call

	// Owned by the line that sends here.
	row, oob []byte
}

// sendAll sends datagrams in order: those of one size that follow each other in one
// call, where the system can. A dead endpoint makes sending fail: as on a real path,
// the datagrams are gone.
func (f *side) sendAll(datagrams [][]byte, to *net.UDPAddr) {
	for len(datagrams) > 0 {
		n := rowOf(datagrams)
		if n == 1 || f.single.Load() || !f.sendRow(datagrams[:n], to) {
			for _, d := range datagrams[:n] {
				_, _ = f.WriteToUDP(d, to)
			}
		}
		datagrams = datagrams[n:]
	}
}

// rowOf counts the datagrams at the head that may go together: all of one size, but
// the last one, which may be smaller.
func rowOf(datagrams [][]byte) int {
	size, total := len(datagrams[0]), len(datagrams[0])
	if !mergeable || size == 0 {
		return 1
	}
	for n := 1; n < len(datagrams); n++ {
		next := len(datagrams[n])
		if total += next; next == 0 || next > size || n == maxRow || total > maxRowBytes {
			return n
		}
		if next < size {
			return n + 1
		}
	}
	return len(datagrams)
}

// sendRow sends datagrams that rowOf put together. False: nothing was sent.
func (f *side) sendRow(datagrams [][]byte, to *net.UDPAddr) bool {
	f.row = f.row[:0]
	for _, d := range datagrams {
		f.row = append(f.row, d...)
	}
	f.oob = sizeControl(f.oob[:0], len(datagrams[0]))
	_, _, err := f.WriteMsgUDP(f.row, f.oob, to)
	if refusesRows(err) {
		f.single.Store(true)
		return false
	}
	return true
}

// receive calls fn with each datagram of one call. The slices are valid during it.
func (f *side) receive(buf, oob []byte, fn func([]byte)) error {
	n, oobn, _, _, err := f.ReadMsgUDPAddrPort(buf, oob)
	if err != nil {
		return err
	}
	size := mergedSize(oob[:oobn])
	if size <= 0 || size >= n {
		fn(buf[:n])
		return nil
	}
	for at := 0; at < n; at += size {
		fn(buf[at:min(n, at+size)])
	}
	return nil
}
