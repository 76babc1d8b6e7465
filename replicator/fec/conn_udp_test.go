//go:build linux

package fec

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// quic-go keeps segmentation offload, ECN and batches for such a socket.
var _ interface {
	quic.OOBCapablePacketConn
	ReadBatch([]ipv4.Message, int) (int, error)
} = (*udpConn)(nil)

func segments(size uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(b[unix.CmsgSpace(0):], size)
	return b
}

func tos(v byte) []byte {
	b := make([]byte, unix.CmsgSpace(1))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_IP, unix.IP_TOS
	h.SetLen(unix.CmsgLen(1))
	b[unix.CmsgSpace(0)] = v
	return b
}

func TestSegments(t *testing.T) {
	other := tos(2)
	for _, oob := range [][]byte{nil, other, append(segments(1200), other...), append(bytes.Clone(other), segments(1200)...)} {
		want := 0
		if len(oob) > len(other) {
			want = 1200
		}
		if got := segmentSize(oob); got != want {
			t.Errorf("size %d, want %d", got, want)
		}
		if rest := withoutSegments(oob); segmentSize(rest) != 0 || len(oob) > 0 && !bytes.Equal(rest, other) {
			t.Errorf("%x without segments is %x", oob, rest)
		}
	}
}

// readAll reads what comes, reports, until it is stopped.
func readAll(c *udpConn) (stop func()) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		ms := []ipv4.Message{{Buffers: [][]byte{make([]byte, maxDatagram)}, OOB: make([]byte, 128)}}
		for {
			if _, err := c.ReadBatch(ms, 0); err != nil {
				return
			}
		}
	}()
	return func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-read
	}
}

// What QUIC writes as one piece arrives as the packets that it is made of, wrapped and
// plain ones in one batch, with their control messages.
func TestUDPSocketsWrapSegments(t *testing.T) {
	const size = maxPacket // QUIC's buffers are no longer
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, b := newEnd(t, ctx), newEnd(t, ctx)
	secret := bytes.Repeat([]byte{1, 2, 3}, SecretSize)[:SecretSize]
	from, err := a.socket.Attach(b.udp.LocalAddr(), secret, true)
	if err != nil {
		t.Fatal(err)
	}
	from.Begin(Pinned(Code{10, 3}))
	if _, err := b.socket.Attach(a.udp.LocalAddr(), secret, false); err != nil {
		t.Fatal(err)
	}
	out, in := a.socket.PacketConn().(*udpConn), b.socket.PacketConn().(*udpConn)
	if err := in.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	defer readAll(out)()
	raw, _ := in.SyscallConn()
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) })
	to := b.udp.LocalAddr().(*net.UDPAddr)
	var piece []byte
	for i := range 10 {
		piece = append(piece, bytes.Repeat([]byte{0x40 + byte(i)}, size)...)
	}
	piece = piece[:9*size+400] // the last one is shorter
	ms := make([]ipv4.Message, 8)
	for i := range ms {
		ms[i] = ipv4.Message{Buffers: [][]byte{make([]byte, size)}, OOB: make([]byte, 128)}
	}
	for wrapped := false; !wrapped; {
		wrapped = !from.Stats().Code.Off()
		if _, _, err := out.WriteMsgUDP(piece, append(segments(size), tos(2)...), to); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 10; {
			n, err := in.ReadBatch(ms, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range ms[:n] {
				want := bytes.Repeat([]byte{0x40 + byte(got)}, size)
				if got == 9 {
					want = want[:400]
				}
				if !bytes.Equal(m.Buffers[0][:m.N], want) {
					t.Fatalf("packet %d: %d bytes, %x…", got, m.N, m.Buffers[0][:8])
				}
				if m.NN == 0 || m.Addr.String() != a.udp.LocalAddr().String() {
					t.Fatalf("packet %d: control messages of %d bytes, from %v", got, m.NN, m.Addr)
				}
				got++
			}
		}
	}
	if st := from.Stats(); st.Sent.Data != 10 || st.Sent.Parity != 3 && st.Sent.Parity != 2 {
		t.Logf("stats %+v", st)
	}
}
