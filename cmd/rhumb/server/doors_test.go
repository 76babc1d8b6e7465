package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// clientHello gives the first bytes of a TLS connection.
func clientHello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go tls.Client(theirs, &tls.Config{ServerName: "rhumb.example"}).Handshake() // ends with the pipe
	ours.SetDeadline(time.Now().Add(limit))
	head := make([]byte, 5)
	if _, err := io.ReadFull(ours, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(ours, body); err != nil {
		t.Fatal(err)
	}
	ours.Close()
	return append(head, body...)
}

// strangers are what speaks to a port by mistake or malice.
func strangers(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"HTTP":               []byte("GET / HTTP/1.1\r\nHost: rhumb.example\r\nUser-Agent: browser\r\n\r\n"),
		"TLS":                clientHello(t),
		"SSH":                []byte("SSH-2.0-OpenSSH_9.7\r\n"),
		"zeros":              make([]byte, 4096),
		"a length of 2 GiB":  {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 1},
		"a negative length":  {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 1},
		"an unknown request": {0, 0, 0, 12, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		"a cut off request":  {0, 0, 0, 100, 0, 3, 0, 1},
		"noise":              bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef, 0x01}, 500),
	}
}

// knock sends bytes, ends its side, and waits until the other end hangs up. It gives
// the address that it came from.
func knock(t *testing.T, addr string, b []byte) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	c.Write(b) // an error means that it hung up already
	c.(*net.TCPConn).CloseWrite()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
	return c.LocalAddr().String()
}

// Whatever arrives on a door, the connection ends, there is a line in the log at
// most, and clients notice nothing.
func TestI9StrangersOnEveryDoor(t *testing.T) {
	f := start(t, configure(t))
	client := f.client(f.kafka())
	f.produce(client, "orders", "0")
	want := []string{"0"}
	for name, b := range strangers(t) {
		for _, door := range []string{f.kafka(), f.admin()} {
			from := knock(t, door, b)
			want = append(want, strconv.Itoa(len(want)))
			f.produce(client, "orders", want[len(want)-1])
			if lines := strings.Count(f.log.String(), from); lines > 1 {
				t.Errorf("%s on %s: %d lines in the log:\n%s", name, door, lines, f.log)
			}
		}
		if code, body := get("http://"+f.admin()+"/healthz", ""); code != 200 {
			t.Errorf("healthz after %s is %d: %s", name, code, body)
		}
	}
	f.consume(f.kafka(), "orders", want...)
}

// addresses asks for Metadata and gives the brokers' addresses.
func (f *fixture) addresses(seed string) (out []string) {
	f.Helper()
	c := f.client(seed)
	resp, err := c.SeedBrokers()[0].Request(f.ctx(), kmsg.NewPtrMetadataRequest())
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		out = append(out, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return out
}

// Each Kafka listener tells its own clients where to go on.
func TestMetadataNamesTheListenerThatWasAsked(t *testing.T) {
	cfg := configure(t)
	outside := listen("outside", config.ProtocolKafka, "127.0.0.1:0")
	outside.Advertise = "kafka.us.example:19092"
	cfg.Listeners = append(cfg.Listeners, outside)
	f := start(t, cfg)
	known := f.server.Self().Addresses[configstore.ProtocolKafka]
	if len(known) != 2 || known[1] != outside.Advertise {
		t.Fatalf("the region's document has %q", known)
	}
	if got := f.addresses(f.kafka()); len(got) != 1 || got[0] != f.kafka() {
		t.Errorf("the inner listener names %q, it is %s", got, f.kafka())
	}
	bound := f.server.in.tcp["outside"].Addr().String()
	if got := f.addresses(bound); len(got) != 1 || got[0] != outside.Advertise {
		t.Errorf("the outer listener names %q, it is advertised as %s", got, outside.Advertise)
	}
}

// ipv6 skips on machines without it.
func ipv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	l.Close()
}

func TestIPv6Listeners(t *testing.T) {
	ipv6(t)
	cfg := configure(t)
	cfg.Listeners = append(cfg.Listeners, listen("kafka6", config.ProtocolKafka, "[::1]:0"), listen("admin6", config.ProtocolAdmin, "[::1]:0"))
	f := start(t, cfg)
	addr := f.server.Self().Addresses[configstore.ProtocolKafka][1]
	if got := f.addresses(addr); len(got) != 1 || got[0] != addr || !strings.HasPrefix(addr, "[::1]:") {
		t.Fatalf("Metadata over IPv6 names %q, want %s", got, addr)
	}
	f.produce(f.client(addr), "orders", "six")
	f.produce(f.client(f.kafka()), "orders", "four")
	f.consume(addr, "orders", "six", "four")
	if code, body := get("http://"+f.server.Self().Addresses[configstore.ProtocolAdmin][1]+"/readyz", ""); code != 200 {
		t.Errorf("readyz over IPv6 is %d: %s", code, body)
	}
}

// Two regions whose links run over IPv6.
func TestIPv6Links(t *testing.T) {
	ipv6(t)
	us, eu := configure(t), configure(t)
	eu.Region.Name = "eu"
	eu.ConfigStore = us.ConfigStore
	seedPair(t, &us, &eu)
	a, b := start(t, us), start(t, eu)
	a.produce(a.client(a.kafka()), "orders", "from us")
	b.consume(b.kafka(), "orders", "from us")
	if geo := a.server.Self().Geo; len(geo) != 1 || !strings.HasPrefix(geo[0], "[::1]:") {
		t.Errorf("us has the geo addresses %q", geo)
	}
}

// seedPair gives two regions certificates, geo listeners on [::1] and a policy.
func seedPair(t *testing.T, regions ...*config.Config) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	store, err := embedded.Open(embedded.Config{Dir: regions[0].ConfigStore.Embedded.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	mesh, err := w.EnsureMesh(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certs.NewCA(mesh.UUID, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := ca.Save(file("ca.crt"), file("ca.key")); err != nil {
		t.Fatal(err)
	}
	var names []rhumb.RegionName
	for _, cfg := range regions {
		name := string(cfg.Region.Name)
		pair, err := ca.IssueRegion(cfg.Region.Name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Save(file(name+".crt"), file(name+".key")); err != nil {
			t.Fatal(err)
		}
		geo := listen("geo", config.ProtocolGeo, "[::1]:0")
		geo.TLS = &config.TLS{CA: file("ca.crt"), Cert: file(name + ".crt"), Key: file(name + ".key")}
		cfg.Listeners = append(cfg.Listeners, geo)
		names = append(names, cfg.Region.Name)
		if _, err := w.RegisterRegion(ctx, configstore.Region{Name: cfg.Region.Name, Geo: []string{"[::1]:1"}, State: configstore.RegionActive}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.PutTenant(ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: names}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The HTTP API is not for everybody: beyond loopback it needs a token, and then
// asks for it.
func TestAdminBeyondLoopbackNeedsAToken(t *testing.T) {
	cfg := configure(t)
	cfg.Listeners[1].Bind = "0.0.0.0:0"
	f := launch(t, cfg)
	if err := f.end(); err == nil || !strings.Contains(err.Error(), "oken") {
		t.Errorf("without a token: %v", err)
	}
	cfg.Admin.Token = "0123456789abcdef"
	f = start(t, cfg)
	_, port, _ := net.SplitHostPort(f.server.in.tcp["admin"].Addr().String())
	url := "http://" + net.JoinHostPort("127.0.0.1", port)
	for token, want := range map[string]int{"": 401, "0123456789abcdeX": 401, cfg.Admin.Token: 200} {
		if code, body := get(url+"/admin/v1/topics", token); code != want {
			t.Errorf("with token %q: %d, want %d: %s", token, code, want, body)
		}
	}
	if code, _ := get(url+"/healthz", ""); code != 200 {
		t.Errorf("healthz needs a token: %d", code)
	}
}

func TestKafkaOverTLS(t *testing.T) {
	cfg := configure(t)
	dir := t.TempDir()
	ca, err := certs.NewCA(rhumb.NewUUID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.IssueRegion("us", []string{"127.0.0.1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	secure := listen("secure", config.ProtocolKafka, "127.0.0.1:0")
	secure.TLS = &config.TLS{Cert: filepath.Join(dir, "us.crt"), Key: filepath.Join(dir, "us.key")}
	if err := pair.Save(secure.TLS.Cert, secure.TLS.Key); err != nil {
		t.Fatal(err)
	}
	cfg.Listeners = append(cfg.Listeners, secure)
	f := start(t, cfg)
	addr := f.server.Self().Addresses[configstore.ProtocolKafka][1]
	f.produce(f.client(addr, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})), "orders", "secret")
	f.consume(f.kafka(), "orders", "secret")
	for name, b := range strangers(t) {
		if name == "TLS" || name == "a cut off request" {
			continue // what it should be; and what waits for its rest
		}
		knock(t, addr, b)
	}
	knock(t, addr, clientHello(t)) // and then nothing
	f.consume(f.kafka(), "orders", "secret")
}
