package fec

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

// wire is one end of a line in memory. fate says of each datagram how often it arrives.
type wire struct {
	addr  *net.UDPAddr
	other *wire
	in    chan []byte

	mu   sync.Mutex
	fate func(datagram []byte) int
	sent [][]byte
}

func newWires() (a, b *wire) {
	a = &wire{addr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, in: make(chan []byte, 10000)}
	b = &wire{addr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 2}, in: make(chan []byte, 10000)}
	a.other, b.other = b, a
	return a, b
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	p, ok := <-w.in
	if !ok {
		return 0, nil, net.ErrClosed
	}
	return copy(b, p), w.other.addr, nil
}

func (w *wire) WriteTo(b []byte, to net.Addr) (int, error) {
	w.mu.Lock()
	w.sent = append(w.sent, bytes.Clone(b))
	fate := w.fate
	w.mu.Unlock()
	n := 1
	if fate != nil {
		n = fate(b)
	}
	for range n {
		w.other.in <- bytes.Clone(b)
	}
	return len(b), nil
}

func (w *wire) becomes(fate func([]byte) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fate = fate
}

// kinds counts what was sent by first byte: packets of QUIC as 0.
func (w *wire) kinds() map[byte]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := map[byte]int{}
	for _, p := range w.sent {
		if isPacket(p) {
			k[p[0]]++
		} else {
			k[0]++
		}
	}
	return k
}

func (w *wire) LocalAddr() net.Addr              { return w.addr }
func (w *wire) Close() error                     { return nil }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// both is two sockets that are joined; got is what the second one delivers.
type both struct {
	a, b *Socket
	mu   sync.Mutex
	got  []string
}

// run starts them and gives what ends them.
func (x *both) run(wa, wb *wire) (stop func()) {
	x.a, x.b = NewSocket(wa), NewSocket(wb)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, s := range []*Socket{x.a, x.b} {
		wg.Go(func() { _ = s.Run(ctx) })
	}
	wg.Go(func() { x.read(x.a, nil) })
	wg.Go(func() { x.read(x.b, func(p string) { x.got = append(x.got, p) }) })
	return func() {
		cancel()
		close(wa.in)
		close(wb.in)
		wg.Wait()
	}
}

func (x *both) delivered() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.got)
}

func (x *both) read(s *Socket, note func(string)) {
	buf := make([]byte, maxDatagram)
	for {
		n, _, err := s.PacketConn().ReadFrom(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		if note != nil {
			note(string(buf[:n]))
		}
		x.mu.Unlock()
	}
}

func (x *both) send(n int, wa *wire) {
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		_, _ = x.a.PacketConn().WriteTo(fmt.Appendf([]byte{0x40}, "packet %d", i), wa.other.addr)
	}
}

func (x *both) attach(t *testing.T, wa, wb *wire, mode Mode) (*Session, *Session) {
	secret := bytes.Repeat([]byte{1, 2, 3, 4, 5}, SecretSize)[:SecretSize]
	a, err := x.a.Attach(wb.addr, secret, true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.b.Attach(wa.addr, secret, false)
	if err != nil {
		t.Fatal(err)
	}
	a.Begin(mode)
	b.Begin(mode)
	return a, b
}

func every(n int) func([]byte) int {
	var i atomic.Int64
	return func([]byte) int {
		if i.Add(1)%int64(n) == 0 {
			return 0
		}
		return 1
	}
}

func TestSocketsBringPacketsBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wa, wb := newWires()
		x := &both{}
		stop := x.run(wa, wb)
		defer stop()
		a, b := x.attach(t, wa, wb, Pinned(Code{10, 3}))
		time.Sleep(time.Second)
		if got := a.Stats().Code.String(); got != "10+3" {
			t.Fatalf("code %s a second after the start", got)
		}
		wa.becomes(every(7))
		x.send(2000, wa)
		time.Sleep(time.Second)
		if n := x.delivered(); n != 2000 {
			t.Errorf("%d of 2000 packets delivered", n)
		}
		st := a.Stats()
		if st.PeerCounts.Recovered < 200 || b.Stats().Counts.Recovered < st.PeerCounts.Recovered || st.Sent.Data != 2000 || st.Sent.Parity < 600 {
			t.Errorf("stats %+v, the peer's %+v", st, b.Stats())
		}
		if k := wa.kinds(); k[0] != 0 || k[typeAsk] == 0 || wb.kinds()[typeReport] == 0 {
			t.Errorf("sent %v and %v", k, wb.kinds())
		}
		a.Close()
		a.Close()
		wa.becomes(nil)
		x.send(10, wa)
		time.Sleep(lingerFor)
		if k := wa.kinds(); k[0] != 10 || x.delivered() != 2010 {
			t.Errorf("after the end of the session: %v sent, %d delivered", k, x.delivered())
		}
	})
}

// Without a session, or while nothing is lost, nothing but the packets themselves is
// ever sent, and they are unchanged.
func TestCleanLinesAreLeftAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wa, wb := newWires()
		x := &both{}
		stop := x.run(wa, wb)
		defer stop()
		x.send(5, wa)
		a, _ := x.attach(t, wa, wb, Mode{})
		off, _ := x.b.Attach(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 3), Port: 3}, bytes.Repeat([]byte{9}, SecretSize), true)
		off.Begin(Pinned(Code{}))
		sent := uint64(0)
		for range 100 {
			sent += 20000
			a.Observe(time.Now(), Traffic{Sent: sent, RTT: rtt, LeastRTT: rtt})
			off.Observe(time.Now(), Traffic{Sent: sent, Lost: sent / 2, RTT: rtt, LeastRTT: rtt})
			x.send(1, wa)
			<-time.After(time.Second)
		}
		if k := wa.kinds(); k[0] != 105 || len(k) != 1 || len(wb.kinds()) != 0 || x.delivered() != 105 {
			t.Errorf("sent %v and %v, %d delivered", k, wb.kinds(), x.delivered())
		}
	})
}

// It turns itself on where packets are lost, and off when the peer stops answering.
func TestLossTurnsSocketsOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wa, wb := newWires()
		x := &both{}
		stop := x.run(wa, wb)
		defer stop()
		a, b := x.attach(t, wa, wb, Mode{})
		a.Observe(time.Now(), Traffic{Sent: 1000, Lost: 10, RTT: rtt, LeastRTT: rtt})
		time.Sleep(time.Second)
		wa.becomes(every(100))
		sent := 1000
		for range 10 {
			x.send(1000, wa)
			sent += 1000
			a.Observe(time.Now(), Traffic{Sent: uint64(sent), Lost: 10, RTT: rtt, LeastRTT: rtt})
		}
		if st := a.Stats(); st.Code.Data != 20 || st.Loss < .005 || st.Loss > .015 || st.PeerCounts.Recovered < 50 {
			t.Errorf("at 1 %% loss: %+v", st)
		}
		b.Close()
		time.Sleep(lingerFor + time.Second)
		x.send(10000, wa)
		if st := a.Stats(); !st.Code.Off() {
			t.Errorf("%v although nobody answers", st.Code)
		}
		plain := wa.kinds()[0]
		x.send(100, wa)
		if k := wa.kinds(); k[0] != plain+100 || k[typeAsk] > 20 {
			t.Errorf("%v sent, %d of QUIC before", k, plain)
		}
	})
}

// Who is not a peer gets no answer and costs no memory. It reaches QUIC with nothing in a
// session's name, and in that of no session with what it could send bare.
func TestStrangersGetNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wa, wb := newWires()
		x := &both{}
		stop := x.run(wa, wb)
		defer stop()
		x.attach(t, wa, wb, Mode{})
		foreign, _ := newKey(make([]byte, secretSize))
		id := uint24(bytes.Repeat([]byte{1, 2, 3, 4, 5}, SecretSize)[2*secretSize:])
		for _, session := range []uint32{id, id + 1} {
			e := &encoder{key: foreign, session: session, code: Code{4, 2}}
			send := func(p []byte) { _, _ = wa.WriteTo(p, wb.addr) }
			for range 100 {
				send(e.add(time.Now(), []byte("forged")))
			}
			e.flush(time.Now(), send)
			send(foreign.appendMessage(nil, typeAsk, session, &message{number: 1}, maxDatagram))
			send(foreign.appendMessage(nil, typeReport, session, &message{number: 1}, 0))
		}
		for n := range 20 {
			_, _ = wa.WriteTo(bytes.Repeat([]byte{typeData + byte(n%4)}, n+1), wb.addr)
		}
		time.Sleep(time.Minute)
		if len(wb.kinds()) != 0 || x.delivered() != 100 || x.b.budget.used.Load() != 0 {
			t.Errorf("%v answered, %d delivered, %d bytes kept", wb.kinds(), x.delivered(), x.b.budget.used.Load())
		}
	})
}

// A session more than there is room for, or whose number is taken, gets none.
func TestSessionsAreBounded(t *testing.T) {
	wa, wb := newWires()
	s := NewSocket(wa)
	secret := make([]byte, SecretSize)
	if _, err := s.Attach(wb.addr, secret, true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(wb.addr, secret, true); err == nil {
		t.Error("a number is given twice")
	}
	if _, err := s.Attach(wb.addr, secret[1:], true); err == nil {
		t.Error("a secret too short is taken")
	}
	for i := range MaxSessions - 1 {
		putUint24(secret[2*secretSize:], uint32(i+1))
		if _, err := s.Attach(wb.addr, secret, true); err != nil {
			t.Fatal(err)
		}
	}
	putUint24(secret[2*secretSize:], 1<<23)
	if _, err := s.Attach(wb.addr, secret, true); err == nil {
		t.Error("one more than MaxSessions")
	}
}

// A path that was corrected is corrected again from the first packet of its next
// session on, also if the peer was restarted and knows the first one no more: then
// handshakes get through meanwhile.
func TestNextSessionIsCorrectedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wa, wb := newWires()
		x := &both{}
		stop := x.run(wa, wb)
		defer stop()
		_, b := x.attach(t, wa, wb, Pinned(Code{10, 3}))
		time.Sleep(time.Second)
		x.send(10, wa)
		b.Close()
		time.Sleep(lingerFor + time.Second)
		x.send(1, wa) // the peer does not know it any more: QUIC is to tell
		time.Sleep(doubt + time.Millisecond)
		_, _ = x.a.PacketConn().WriteTo([]byte{0xc0, 1, 2, 3}, wb.addr)
		time.Sleep(time.Millisecond)
		if n := x.delivered(); n != 12 {
			t.Errorf("%d packets delivered, the handshake's not", n)
		}
		secret := bytes.Repeat([]byte{7, 8, 9}, SecretSize)[:SecretSize]
		next, err := x.b.Attach(wa.addr, secret, false)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		a, err := x.a.Attach(wb.addr, secret, true)
		if err != nil {
			t.Fatal(err)
		}
		a.Begin(Pinned(Code{10, 3}))
		a.Begin(Pinned(Code{10, 3}))
		plain := wa.kinds()[0]
		x.send(100, wa)
		time.Sleep(time.Second)
		if n := x.delivered(); n != 112 {
			t.Errorf("%d of 112 packets delivered", n)
		}
		if n := wa.kinds()[0] - plain; n != 0 {
			t.Errorf("%d packets sent as they were", n)
		}
	})
}

// A path that was asked while hellos were under way is corrected from the first packet on,
// also if the first asks were lost; a peer that never answers is asked a few times.
func TestAskedEarlyIsCorrectedAtOnce(t *testing.T) {
	for _, lost := range []int{0, 2, 100} {
		bubble.Test(t, func(t *testing.T) {
			wa, wb := newWires()
			x := &both{}
			stop := x.run(wa, wb)
			defer stop()
			secret := bytes.Repeat([]byte{4, 5, 6}, SecretSize)[:SecretSize]
			a, err := x.a.Attach(wb.addr, secret, true)
			if err != nil {
				t.Fatal(err)
			}
			var asks atomic.Int64
			wa.becomes(func([]byte) int {
				if asks.Add(1) <= int64(lost) {
					return 0
				}
				return 1
			})
			if _, err := x.b.Attach(wa.addr, secret, false); err != nil {
				t.Fatal(err)
			}
			a.Ask()
			<-time.After(time.Second)
			if n, want := int(asks.Load()), min(lost+1, earlyAsks); n != want {
				t.Errorf("%d lost: %d asks, want %d", lost, n, want)
			}
			wa.becomes(nil)
			a.Begin(Mode{})
			a.Observe(time.Now(), Traffic{RTT: rtt, LeastRTT: rtt})
			x.send(1, wa)
			if corrected := wa.kinds()[0] == 0; corrected != (lost < earlyAsks) {
				t.Errorf("%d lost: corrected %v", lost, corrected)
			}
		})
	}
}
