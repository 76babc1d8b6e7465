//go:build linux

package fec

import (
	"bytes"
	"context"
	"crypto/tls"
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

// BenchmarkLoopback measures what a connection carries where nothing is lost, and the
// CPU time of both of its ends.
func BenchmarkLoopback(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, to := newEnd(b, ctx).quic(b), newEnd(b, ctx).quic(b)
	config := &quic.Config{InitialStreamReceiveWindow: 8 << 20, MaxStreamReceiveWindow: 8 << 20,
		InitialConnectionReceiveWindow: 32 << 20, MaxConnectionReceiveWindow: 32 << 20}
	l, err := to.transport.Listen(certificate(b), config)
	if err != nil {
		b.Fatal(err)
	}
	received := make(chan int, 1000)
	go func() {
		if qc, err := l.Accept(ctx); err == nil {
			drain(ctx, qc, received)
		}
	}()
	qc, err := from.transport.Dial(ctx, to.udp.LocalAddr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"t"}}, config)
	if err != nil {
		b.Fatal(err)
	}
	s, err := qc.OpenUniStream()
	if err != nil {
		b.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	b.SetBytes(int64(len(piece)))
	cpu, total := processTime(b), 0
	b.ResetTimer()
	go func() {
		for range b.N {
			if _, err := s.Write(piece); err != nil {
				return
			}
		}
	}()
	for total < b.N*len(piece) {
		total += <-received
	}
	b.ReportMetric((processTime(b)-cpu).Seconds()/(float64(total)/1e9), "cpu-s/GB")
}

// together is the control message that says of what size the datagrams of a row are.
func together(size int32) []byte {
	b := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_GRO
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(b[unix.CmsgSpace(0):], uint32(size))
	return b
}

func TestSplitSize(t *testing.T) {
	other := append(tos(1), tos(2)...)
	for _, oob := range [][]byte{nil, other, append(together(1400), other...), append(bytes.Clone(other), together(1400)...),
		append(append(tos(1), together(1400)...), tos(2)...)} {
		want := 0
		if len(oob) > len(other) {
			want = 1400
		}
		size, rest := splitSize(bytes.Clone(oob))
		if size != want || len(oob) > 0 && !bytes.Equal(rest, other) {
			t.Errorf("%x: size %d, others %x", oob, size, rest)
		}
	}
	if size, rest := splitSize([]byte{1, 2, 3}); size != 0 || len(rest) != 3 {
		t.Errorf("no control message at all: %d, %x", size, rest)
	}
}

// Rows of several peers are given one datagram after the other, each with what the system
// said of its row, whatever QUIC's batches are; and what is longer than QUIC's packets, or
// empty, disturbs nobody.
func TestRowsOfSeveralPeers(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	to := newEnd(t, ctx)
	in := to.socket.PacketConn().(*udpConn)
	if err := in.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	raw, _ := in.SyscallConn()
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) })
	want := map[string][][]byte{}
	total := 0
	for peer := range 3 {
		from := newEnd(t, ctx)
		name := from.udp.LocalAddr().String()
		for row := range 4 {
			size := 100 + 300*row + 7*peer
			var piece []byte
			for i := range 5 {
				p := bytes.Repeat([]byte{0x40 + byte(peer<<4) + byte(row<<2) + byte(i&3)}, size-i/4) // the last is shorter
				piece = append(piece, p...)
				want[name] = append(want[name], p)
				total++
			}
			for _, b := range [][]byte{{}, make([]byte, maxDatagram+1), piece} {
				oob := tos(byte(peer))
				if len(b) == len(piece) {
					oob = append(oob, segments(uint16(size))...)
				}
				if _, _, err := from.udp.WriteMsgUDP(b, oob, to.udp.LocalAddr().(*net.UDPAddr)); err != nil {
					t.Fatal(err)
				}
			}
		}
		want[name] = append(want[name], []byte{byte(peer)}) // its TOS
	}
	ms := make([]ipv4.Message, 3)
	for i := range ms {
		ms[i] = ipv4.Message{Buffers: [][]byte{make([]byte, maxPacket)}, OOB: make([]byte, 128)}
	}
	for got, long := 0, false; got < total; {
		n, err := in.ReadBatch(ms, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms[:n] {
			if m.N == 0 {
				continue
			}
			list := want[m.Addr.String()]
			mark := list[len(list)-1][0]
			if !bytes.Equal(m.Buffers[0][:m.N], list[0]) || !bytes.Equal(m.OOB[:m.NN], tos(mark)) {
				t.Fatalf("%d bytes %x…, want %d bytes %x…; control messages %x", m.N, m.Buffers[0][:8], len(list[0]), list[0][:8], m.OOB[:m.NN])
			}
			want[m.Addr.String()] = list[1:]
			got++
		}
		if long = long || len(in.rows.rest) > 0; got == total && !long {
			t.Log("this kernel gives no rows")
		}
	}
}

// processTime is the CPU time of this process so far.
func processTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
