package relay

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Datagrams of equal and of different sizes, in rows longer than one call takes, and
// such that came together, arrive one by one, whole and in order.
func TestRowsArriveAsDatagrams(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single=%v", single), func(t *testing.T) {
			a, b := listenAt(t, "127.0.0.1:0"), listenAt(t, "127.0.0.1:0")
			r := start(t, Config{A: a.LocalAddr().String(), B: b.LocalAddr().String()})
			r.fronts[1].single.Store(single)
			_ = b.SetReadBuffer(1 << 20)
			sender := &side{UDPConn: a.UDPConn}
			n := 0
			for _, sizes := range [][]int{{1200}, {1200, 1200, 1200, 700}, {700, 1200, 1200, 9, 1200}, equal(3, 1400), equal(150, 1200), {10, 10, 10}} {
				row := make([][]byte, len(sizes))
				want := make([]string, len(sizes))
				for i, size := range sizes {
					text := fmt.Sprintf("%d ", n)
					want[i] = text + strings.Repeat("x", max(0, size-len(text)))
					row[i] = []byte(want[i])
					n++
				}
				sender.sendAll(row, r.FrontA().(*net.UDPAddr))
				for i := range want {
					if got, _ := b.receive(time.Minute); got != want[i] {
						t.Fatalf("datagram %d of %d in a row: got %.10q of %d bytes, want %.10q of %d", i, len(want), got, len(got), want[i], len(want[i]))
					}
				}
			}
			if _, back := r.Stats(); back.Sent != 0 {
				t.Error("something went back")
			}
			awaitDelivered(t, r, uint64(n))
			if forth, _ := r.Stats(); forth.Delivered != uint64(n) {
				t.Errorf("%d of %d datagrams are counted", forth.Delivered, n)
			}
		})
	}
}

func equal(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

func TestRowOf(t *testing.T) {
	if !mergeable {
		t.Skip("the system takes one datagram at a time")
	}
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{0}, 1}, {[]int{0, 0}, 1}, {[]int{5, 0}, 1}, {[]int{5, 6}, 1}, {[]int{5, 4, 4}, 2}, {[]int{5, 5, 5}, 3}, {[]int{5, 5, 0}, 2},
		{equal(100, 9), maxRow}, {equal(50, 9000), maxRowBytes / 9000},
	} {
		row := make([][]byte, len(c.sizes))
		for i, n := range c.sizes {
			row[i] = make([]byte, n)
		}
		if got := rowOf(row); got != c.want {
			t.Errorf("sizes %v: %d go together, want %d", c.sizes[:min(5, len(c.sizes))], got, c.want)
		}
	}
}

// BenchmarkRelay carries full datagrams from one socket to another, sent together
// by the relay, or each in a call of its own.
func BenchmarkRelay(b *testing.B) {
	b.Run("rows", func(b *testing.B) { benchmarkRelay(b, false) })
	b.Run("single", func(b *testing.B) { benchmarkRelay(b, true) })
}

func benchmarkRelay(b *testing.B, single bool) {
	const size, row = 1252, 32
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	from := &side{UDPConn: in}
	out, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	_ = out.SetReadBuffer(socketBuffer)
	r, err := Listen(Config{A: in.LocalAddr().String(), B: out.LocalAddr().String()})
	if err != nil {
		b.Fatal(err)
	}
	r.fronts[1].single.Store(single)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(b.Context()) }()
	datagrams := make([][]byte, row)
	for i := range datagrams {
		datagrams[i] = make([]byte, size)
	}
	buf := make([]byte, 2048)
	b.SetBytes(size * row)
	for b.Loop() {
		from.sendAll(datagrams, r.FrontA().(*net.UDPAddr))
		for range row {
			if _, err := out.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	_ = r.Close()
	<-ended
}
