package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// pki is a CA with the files of a listener, and clients of it.
type pki struct {
	t     *testing.T
	ca    *certs.CA
	files certs.Files
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	ca, err := certs.NewCA(rhumb.UUID{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &pki{t, ca, certs.Files{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}}
	if err := ca.Save(p.files.CA, filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	p.renew(ca)
	return p
}

// renew puts a certificate that ca signed into the listener's files.
func (p *pki) renew(ca *certs.CA) {
	p.t.Helper()
	pair, err := ca.IssueRegion("us", []string{"127.0.0.1"}, 0)
	if err == nil {
		err = pair.Save(p.files.Cert, p.files.Key)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pki) source() *certs.Source {
	p.t.Helper()
	s, err := certs.Open(p.files)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// client makes the TLS side of a client that trusts the CA, with a certificate of
// that name, or none.
func (p *pki) client(ca *certs.CA, name string) *tls.Config {
	p.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	c := &tls.Config{RootCAs: pool}
	if name != "" {
		pair, err := ca.IssueClient(name, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}}
	}
	return c
}

// The certificate says who a client is: it sees what the user of that name was
// granted. Without one, with another CA's, or of a user who is not there, nothing
// is answered.
func TestCertificateNamesTheUser(t *testing.T) {
	p, a := newPKI(t), newAccounts(t)
	addUser(t, a, "alice", "unused", shop)
	h := &harness{TB: t, region: brokertest.New(), door: Listener{TLS: certs.KafkaServer(p.source())}}
	h.serve(h.region, func(_ *broker.Config, c *Config) { c.Accounts = a })
	h.topic("acme/shop/t", 1, nil)
	c := h.client(kgo.DialTLSConfig(p.client(p.ca, "alice")), kgo.DefaultProduceTopic("t"))
	if err := c.ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	foreign := h.client(kgo.DialTLSConfig(p.client(p.ca, "alice")), kgo.DefaultProduceTopic("public/default/t"), kgo.RequestRetries(0))
	if err := foreign.ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr(); err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("a namespace that was not granted: %v", err)
	}
	other, err := certs.NewCA(rhumb.UUID{2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger := p.client(other, "alice")
	stranger.RootCAs = p.client(p.ca, "").RootCAs
	for i, conf := range []*tls.Config{p.client(p.ca, "carol"), p.client(p.ca, ""), stranger} {
		c := h.client(kgo.DialTLSConfig(conf), kgo.RequestRetries(0))
		if err := c.Ping(h.ctx()); err == nil {
			t.Errorf("stranger %d is answered", i)
		}
	}
	if !strings.Contains(h.log.String(), `there is no user \"carol\"`) { // lines about the others may be left out
		t.Errorf("no line names her:\n%s", h.log)
	}
}

// New certificates, of a new CA even, are used without a restart; connections that
// stand go on.
func TestCertificatesChangeUnderConnections(t *testing.T) {
	p, a := newPKI(t), newAccounts(t)
	addUser(t, a, "alice", "unused", rhumb.DefaultSpace)
	source := p.source()
	h := &harness{TB: t, region: brokertest.New(), door: Listener{TLS: certs.KafkaServer(source)}}
	h.serve(h.region, func(_ *broker.Config, c *Config) { c.Accounts = a })
	h.topic("t", 1, nil)
	before := h.client(kgo.DialTLSConfig(p.client(p.ca, "alice")), kgo.DefaultProduceTopic("t"))
	produce := func(c *kgo.Client) error { return c.ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr() }
	if err := produce(before); err != nil {
		t.Fatal(err)
	}
	fresh, err := certs.NewCA(rhumb.UUID{1}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Save(p.files.CA, filepath.Join(t.TempDir(), "ca.key")); err != nil {
		t.Fatal(err)
	}
	p.renew(fresh)
	after := h.client(kgo.DialTLSConfig(p.client(fresh, "alice")), kgo.DefaultProduceTopic("t"))
	if err := produce(after); err != nil {
		t.Fatalf("with the new CA: %v; the files: %v", err, source.Err())
	}
	old := h.client(kgo.DialTLSConfig(p.client(p.ca, "alice")), kgo.RequestRetries(0))
	if err := old.Ping(h.ctx()); err == nil {
		t.Error("the old CA is still trusted")
	}
	if err := produce(before); err != nil { // it could not connect anew
		t.Fatalf("a connection from before: %v", err)
	}
	if until := source.Current().Expiry(); time.Until(until) > time.Hour {
		t.Errorf("it ends at %v", until)
	}
}
