package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
)

const testNode = brokertest.TestNode

// harness is a server on a region in memory, listening on a real socket.
type harness struct {
	testing.TB
	region *brokertest.Region // nil on the real region
	broker *broker.Broker
	server *Server
	addr   string
	log    *logBuffer
	asked  sync.Map // of *asking by its address: connections that cut may end
	door   Listener // what the listener is, but for name and address
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t testing.TB, change ...func(*broker.Config, *Config)) *harness {
	t.Helper()
	h := &harness{TB: t, region: brokertest.New()}
	return h.serve(h.region, change...)
}

// startReal is start on the real region.
func startReal(t testing.TB, change ...func(*storage.Config, *region.Config)) *harness {
	t.Helper()
	return (&harness{TB: t}).serve(brokertest.Real(t, change...))
}

// both runs a test on the region in memory and on the real one.
func both(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Run("memory", func(t *testing.T) { test(t, start(t)) })
	t.Run("real", func(t *testing.T) { test(t, startReal(t)) })
}

func (h *harness) serve(r broker.Region, change ...func(*broker.Config, *Config)) *harness {
	h.Helper()
	t := h.TB
	h.log = &logBuffer{}
	bc := broker.Config{Region: r, Groups: groups.Config{InitialDelay: -1}}
	kc := Config{NodeID: testNode, Rack: "us", Logger: slog.New(slog.NewTextHandler(h.log, nil))}
	for _, f := range change {
		f(&bc, &kc)
	}
	var err error
	if h.broker, err = broker.New(bc); err != nil {
		t.Fatal(err)
	}
	kc.Broker = h.broker
	if h.server, err = New(kc); err != nil {
		t.Fatal(err)
	}
	addr, err := h.server.Listen(h.listener())
	if err != nil {
		t.Fatal(err)
	}
	h.addr = addr.String()
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := h.server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *harness) listener() Listener {
	l := h.door
	l.Name = "plain"
	if l.Bind == "" {
		l.Bind = "127.0.0.1:0"
	}
	return l
}

func (h *harness) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	h.Cleanup(cancel)
	return ctx
}

func (h *harness) client(opts ...kgo.Opt) *kgo.Client {
	h.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(h.addr), kgo.AllowAutoTopicCreation(), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(c.Close)
	return c
}

func (h *harness) admin() *kadm.Client { return kadm.NewClient(h.client()) }

func (h *harness) topic(name string, partitions int32, configs map[string]string) broker.TopicInfo {
	h.Helper()
	topic, err := rhumb.ParseTopic(name)
	if err != nil {
		h.Fatal(err)
	}
	info, err := h.broker.CreateTopic(h.ctx(), broker.TopicSpec{Topic: topic, Partitions: partitions, Configs: configs})
	if err != nil {
		h.Fatal(err)
	}
	return info
}

// rawConn speaks the protocol byte by byte.
type rawConn struct {
	h    *harness
	nc   net.Conn
	next int32
}

func (h *harness) dial() *rawConn {
	h.Helper()
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return &rawConn{h: h, nc: nc}
}

// frame encodes a request as a client does.
func frame(req kmsg.Request, correlation int32) []byte {
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, 4)
	b = append(b, "test"...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *rawConn) send(req kmsg.Request) int32 {
	c.h.Helper()
	c.next++
	c.write(frame(req, c.next))
	return c.next
}

func (c *rawConn) write(b []byte) {
	c.h.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.h.Fatal(err)
	}
}

// receive reads one answer; the correlation id must be the one given.
func (c *rawConn) receive(correlation int32) []byte {
	c.h.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		c.h.Fatalf("answer %d: %v", correlation, err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		c.h.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		c.h.Fatalf("answer of request %d, want %d", got, correlation)
	}
	return b[4:]
}

// closed waits until the server closes the connection without an answer.
func (c *rawConn) closed() {
	c.h.Helper()
	if n, err := c.nc.Read(make([]byte, 1)); n != 0 || err == nil {
		c.h.Fatal("an answer, want the connection closed")
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.h.Fatal("connection stays open")
	}
}

// ask sends a request and decodes its answer.
func ask[R kmsg.Response](c *rawConn, req kmsg.Request) R {
	c.h.Helper()
	return decodeAnswer[R](c, req, c.receive(c.send(req)))
}

func decodeAnswer[R kmsg.Response](c *rawConn, req kmsg.Request, b []byte) R {
	c.h.Helper()
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		if b[0] != 0 {
			c.h.Fatalf("header has tags: %x", b[0])
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.h.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); len(again) != len(b) {
		c.h.Fatalf("%s version %d: answer of %d bytes decodes to one of %d", kmsg.NameForKey(req.Key()), req.GetVersion(), len(b), len(again))
	}
	return resp.(R)
}

// textLogger logs without times.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
