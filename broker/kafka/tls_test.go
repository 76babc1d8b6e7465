package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/broker/brokertest"
)

// selfSigned makes a certificate for 127.0.0.1 and ::1 and who trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// Two listeners at once: TLS on IPv6, plain on IPv4. What is written through one
// is read through the other, and a plain client on the TLS port hurts nobody.
func TestTLSAndPlainListenersTogether(t *testing.T) {
	cert, pool := selfSigned(t)
	h := &harness{TB: t, region: brokertest.New()}
	h.serve(h.region)
	six, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 on this machine")
	}
	s, err := New(Config{Broker: h.broker, NodeID: testNode, Logger: textLogger(h.log)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddListener(Listener{Name: "tls", TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}, six); err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context())
	defer s.Close()
	secure := h.client(kgo.SeedBrokers(six.Addr().String()), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	for range 50 {
		if err := secure.ProduceSync(h.ctx(), kgo.StringRecord(strings.Repeat("x", 1000))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	h.consume(secure, 50)
	h.consume(h.client(kgo.ConsumeTopics("t")), 50)
	plain := &harness{TB: t, addr: six.Addr().String()}
	c := plain.dial()
	c.send(metadataRequest())
	waitFor(t, "a line about the handshake", func() bool { return strings.Contains(h.log.String(), "tls handshake") })
}

// When Close has returned nothing of the server runs any more, whatever its
// clients were doing.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold()
	for range 5 {
		c := h.dial()
		long := fetchRequest("t", 0)
		long.MaxWaitMillis, long.MinBytes = 60_000, 1<<20
		c.send(long)
		c.send(produceRequestOf("t", -1, oneRecord()))
		c.send(produceRequestOf("t", 0, oneRecord()))
		c.write([]byte{0, 0, 1})
	}
	waitFor(t, "the appends", func() bool { s, _ := h.region.State(h.ref("t")); return s.End == 10 })
	if err := h.server.Close(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	waitFor(t, "no goroutine of the server", func() bool { // one that has signalled its end may still be on its way out
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "(*conn).") && !strings.Contains(stacks, "kafka.fetch") && !strings.Contains(stacks, "(*Server).fetch")
	})
	h.region.Free()
	waitFor(t, "everything given back", func() bool { return h.held() == 0 })
}
