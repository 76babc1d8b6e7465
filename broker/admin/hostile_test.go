package admin_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/internal/bubble"
)

// pipes is a listener in memory; who dials it says from where.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", f.addr)
	return a
}

func (p *pipes) dial(addr string) net.Conn {
	here, there := net.Pipe()
	p.conns <- from{there, addr}
	return here
}

// closed reports whether the other end hangs up, at once in a bubble where nothing
// else goes on.
func closed(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}

// running serves an API on pipes in a bubble.
func running(t *testing.T) *pipes { return runningOn(t, sample(t)) }

func runningOn(t *testing.T, r *admintest.Region) *pipes {
	cfg := r.Config()
	cfg.Tokens = tokens(t)
	s, l := newServer(t, cfg), newPipes()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return l
}

// TestI9ConnectionsAreBounded: who opens very many keeps nobody else out, and one
// that ends makes room.
func TestI9ConnectionsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := running(t)
		var open []net.Conn
		for range 256 {
			open = append(open, l.dial("192.0.2.1:5"))
		}
		synctest.Wait()
		if closed(open[0]) || closed(open[255]) {
			t.Error("closed within the bounds")
		}
		if c := l.dial("192.0.2.1:6"); !closed(c) {
			t.Error("one more from that address is taken")
		}
		other := l.dial("192.0.2.2:5")
		if closed(other) {
			t.Error("another address is kept out")
		}
		open[7].Close()
		synctest.Wait()
		again := l.dial("192.0.2.1:7")
		if closed(again) {
			t.Error("one that ended makes no room")
		}
		for _, c := range append(open, other, again) {
			c.Close()
		}
	})
}

// TestI9SlowRequestsEnd: headers and bodies that never come whole end their
// connections, and others are answered meanwhile.
func TestI9SlowRequestsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := running(t)
		began := time.Now()
		ends := make(chan time.Duration, 2)
		slow := func(text string) {
			c := l.dial("192.0.2.9:5")
			go io.WriteString(c, text)
			go func() {
				io.Copy(io.Discard, c)
				ends <- time.Since(began)
				c.Close()
			}()
		}
		slow("GET /admin/v1/topics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		slow("POST /admin/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\nAuthorization: Bearer " +
			secret + "admin\r\n\r\n{\"topic\": ")
		synctest.Wait()
		c := l.dial("192.0.2.1:5")
		go io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("another caller: %v, %v", resp, err)
		}
		c.Close()
		if header, body := <-ends, <-ends; header > 11*time.Second || body > 62*time.Second {
			t.Errorf("slow headers end after %s, a slow body after %s", header, body)
		}
	})
}

// TestI9OddRequestsGetClearAnswers: whatever is asked for, the answer is an error of
// the API with a kind and a text, bounded, and nothing happens.
func TestI9OddRequestsGetClearAnswers(t *testing.T) {
	us := sample(t)
	h := newServer(t, us.Config()).Handler()
	before := len(us.Topics())
	deep := strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000)
	for _, c := range []struct {
		name, method, target, body, kind string
		code                             int
	}{
		{"deep JSON", "POST", "/admin/v1/topics", `{"topic": ` + deep + `}`, "", 400},
		{"deep JSON in a document", "PUT", "/admin/v1/namespaces/old/one", `{"topology": ` + deep + `}`, "", 400},
		{"deep JSON in records", "POST", "/admin/v1/topics/public/default/orders/records", `{"records": ` + deep + `}`, "", 400},
		{"an array", "POST", "/admin/v1/topics", `[]`, "", 400},
		{"nothing", "POST", "/admin/v1/topics", ` `, "", 400},
		{"null", "POST", "/admin/v1/topics", `null`, "", 400},
		{"not UTF-8", "POST", "/admin/v1/topics", "{\"topic\": \"\xff\xfe\"}", "", 400},
		{"a form", "POST", "/admin/v1/topics", `topic=x`, "application/x-www-form-urlencoded", 400},
		{"no type", "POST", "/admin/v1/topics", `{"topic": "x"}`, " ", 400},
		{"another charset", "PUT", "/admin/v1/tenants/new", `{}`, "text/json", 400},
		{"up and away", "GET", "/admin/v1/topics/public/default/..%2f..%2fetc%2fpasswd", "", "", 400},
		{"up as a tenant", "PUT", "/admin/v1/tenants/..", `{}`, "", 0},
		{"an escaped up", "PUT", "/admin/v1/tenants/%2e%2e", `{}`, "", 0},
		{"a slash in a tenant", "PUT", "/admin/v1/tenants/a%2fb", `{}`, "", 400},
		{"a zero byte", "PUT", "/admin/v1/tenants/a%00b", `{}`, "", 400},
		{"a line break", "DELETE", "/admin/v1/users?name=a%0d%0ab", "", "", 404},
		{"a partition of words", "GET", "/admin/v1/topics/public/default/orders/partitions/first/records", "", "", 404},
		{"a huge partition", "GET", "/admin/v1/topics/public/default/orders/partitions/99999999999999999999/records", "", "", 404},
		{"a negative offset", "GET", "/admin/v1/topics/public/default/orders/partitions/0/records?from=-7", "", "", 400},
		{"a long name", "GET", "/admin/v1/topics/public/default/" + strings.Repeat("x", 60_000), "", "", 400},
	} {
		header := []string{}
		if c.kind != "" {
			header = []string{"Content-Type", strings.TrimSpace(c.kind)}
		}
		w := do(h, c.method, c.target, c.body, header...)
		if w.Code != c.code && c.code != 0 || w.Code >= 500 || w.Code == 200 {
			t.Errorf("%s: %d %.300s", c.name, w.Code, w.Body)
		}
		if c.code != 0 && (!strings.HasPrefix(w.Body.String(), `{"error":{"kind":`) || w.Body.Len() > 130_000) {
			t.Errorf("%s: %d bytes: %.300s", c.name, w.Body.Len(), w.Body)
		}
	}
	if len(us.Topics()) != before {
		t.Error("something was made")
	}
	for _, tenant := range us.Config().Documents.Tenants() {
		if tenant.Name != "empty" && tenant.Name != "old" {
			t.Errorf("tenant %q was made", tenant.Name)
		}
	}
}

// FuzzRequests: whatever stands in a request line, a header and a body, the handler
// answers, without a panic and without the fault of the server.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/admin/v1/topics/public/default/orders/partitions/0/records?from=1&max=2&wait=1ns", "", "")
	f.Add("POST", "/admin/v1/topics", `{"topic": "a", "partitions": 2, "configs": {"a": "b"}}`, "application/json")
	f.Add("PUT", "/admin/v1/namespaces/acme/shop?create=true", `{"topology": {"full-mesh": []}, "version": 1}`, "application/json")
	f.Add("POST", "/admin/v1/topics/public/default/orders/records", `{"records": [{"key": {"base64": "/w=="}, "value": null, "headers": [{"key": "", "value": ""}], "timestamp": "-9"}]}`, "application/json")
	f.Add("GET", "/admin/v1/topics/public/default/orders/partitions/0/digest?region=1&life=00000000000000000000000000000000&from=0", "", "")
	f.Add("POST", "/admin/v1/users", `{"name": "a", "create": true, "sha256": {"salt": "", "iterations": -1, "stored_key": "", "server_key": ""}}`, "application/json;x")
	cfg := sample(f).Config()
	cfg.Health = func() admin.Health { return admin.Health{Live: true, Ready: true} }
	h := newServer(f, cfg).Handler()
	f.Fuzz(func(t *testing.T, method, target, body, kind string) {
		if strings.Contains(target, "wait=") && !strings.Contains(target, "wait=1ns") {
			return // a long poll is allowed to wait
		}
		r, err := http.NewRequest(method, "http://localhost", strings.NewReader(body))
		if err != nil {
			return
		}
		if r.URL, err = r.URL.Parse(target); err != nil {
			return
		}
		r.Host, r.RemoteAddr = "localhost", "192.0.2.1:1"
		r.Header.Set("Content-Type", kind)
		w := &answer{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.code == http.StatusInternalServerError {
			t.Errorf("%s %s %q: %s", method, target, body, w.text.String())
		}
	})
}

// answer takes what a handler writes, and forgets most of it.
type answer struct {
	header http.Header
	code   int
	text   strings.Builder
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.text.Len() < 4096 {
		a.text.Write(p)
	}
	return len(p), nil
}
