package fec

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/relay"
)

// BenchmarkLine measures what QUIC carries over bad lines, without and with correction:
// MB/s after some seconds to get going, on one connection that began with the line and
// one that joined it later. Run it with -benchtime 1x.
func BenchmarkLine(b *testing.B) {
	for _, line := range []struct{ name, settings string }{
		{"20ms-0.01%", "delay=10ms,loss=0.01%"},
		{"80ms-0.1%", "delay=40ms,loss=0.1%"},
		{"200ms-1%", "delay=100ms,loss=1%"},
		{"300ms-3%", "delay=150ms,loss=3%"},
	} {
		for _, mode := range []string{"off", "auto", "10+3", "20+5"} {
			b.Run(line.name+"/"+mode, func(b *testing.B) {
				for range b.N {
					rate, stats := carry(b, line.settings, mode, 12*time.Second, 10*time.Second)
					b.ReportMetric(rate/1e6, "MB/s")
					b.ReportMetric(100*stats.Code.Overhead(), "%parity")
					b.ReportMetric(float64(stats.PeerCounts.Recovered), "recovered")
				}
			})
		}
	}
}

// end is one region's socket with its transport.
type end struct {
	udp       *net.UDPConn
	socket    *Socket
	transport *quic.Transport
}

func newEnd(t testing.TB, ctx context.Context) *end {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	e := &end{udp: udp, socket: NewSocket(udp)}
	done := make(chan struct{})
	go func() { defer close(done); _ = e.socket.Run(ctx) }()
	t.Cleanup(func() {
		<-done
		_ = udp.Close()
	})
	return e
}

// quic has it speak QUIC.
func (e *end) quic(t testing.TB) *end {
	e.transport = &quic.Transport{Conn: e.socket.PacketConn()}
	t.Cleanup(func() { _ = e.transport.Close() })
	return e
}

// attach makes the session of a connection, and observes it until it ends.
func (e *end) attach(t testing.TB, qc *quic.Conn, dialled bool, mode Mode) *Session {
	state := qc.ConnectionState().TLS
	secret, err := state.ExportKeyingMaterial("EXPORTER-test", nil, SecretSize)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.socket.Attach(qc.RemoteAddr(), secret, dialled)
	if err != nil {
		t.Fatal(err)
	}
	s.Begin(mode)
	go func() {
		defer s.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-qc.Context().Done():
				return
			case now := <-tick.C:
				st := qc.ConnectionStats()
				s.Observe(now, Traffic{Sent: st.PacketsSent, Lost: st.PacketsLost, RTT: st.SmoothedRTT, LeastRTT: st.MinRTT})
			}
		}
	}()
	return s
}

// carry sends for a time over a line and gives bytes per second after a warm-up.
func carry(t testing.TB, settings, mode string, warm, measure time.Duration) (float64, Stats) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m, err := ParseMode(mode)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newEnd(t, ctx).quic(t), newEnd(t, ctx).quic(t)
	line, err := relay.Settings{}.With(settings)
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.Listen(relay.Config{A: a.udp.LocalAddr().String(), B: b.udp.LocalAddr().String(), Seed: 1, Settings: line})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.Run(ctx) }()
	config := &quic.Config{InitialStreamReceiveWindow: 16 << 20, MaxStreamReceiveWindow: 32 << 20,
		InitialConnectionReceiveWindow: 16 << 20, MaxConnectionReceiveWindow: 48 << 20}
	l, err := b.transport.Listen(certificate(t), config)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan int, 1000)
	go func() {
		for {
			qc, err := l.Accept(ctx)
			if err != nil {
				return
			}
			b.attach(t, qc, false, m)
			go drain(ctx, qc, received)
		}
	}()
	var session *Session
	for i := range 2 {
		qc, err := a.transport.Dial(ctx, r.FrontA(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"t"}}, config)
		if err != nil {
			t.Fatal(err)
		}
		if n := a.attach(t, qc, true, m); session == nil {
			session = n
		}
		s, err := qc.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(s, endless{}) }()
		if i == 0 {
			<-time.After(warm / 2)
		}
	}
	total, start := 0, time.After(warm/2)
	var end <-chan time.Time
	var began time.Time
	for {
		select {
		case n := <-received:
			total += n
		case <-start:
			total, began, end = 0, time.Now(), time.After(measure)
		case <-end:
			rate := float64(total) / time.Since(began).Seconds()
			st := session.Stats()
			return rate, st
		}
	}
}

// drain counts what a connection brings.
func drain(ctx context.Context, qc *quic.Conn, received chan<- int) {
	s, err := qc.AcceptUniStream(ctx)
	if err != nil {
		return
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := s.Read(buf)
		if err != nil {
			return
		}
		received <- n
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func certificate(t testing.TB) *tls.Config {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, NextProtos: []string{"t"}}
}
