package dev

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/porttest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// limit bounds each thing that a test waits for.
const limit = 2 * time.Minute

// screen is what a person sees.
type screen struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{} // capacity 1
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// running is a mesh that a test runs in this process.
type running struct {
	*testing.T
	opts   Options
	screen *screen
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // read after ended
}

// options gives those of a mesh of us, eu and ap on free ports, whose temporary
// folders are in a folder of the test.
func options(t *testing.T) Options {
	t.Helper()
	opts := Options{
		Regions: []rhumb.RegionName{"us", "eu", "ap"}, PortOffset: porttest.Offset(t, 3),
		Control: socketPath(t), Logger: slog.New(slog.DiscardHandler),
	}
	t.Setenv("TMPDIR", t.TempDir())
	return opts
}

// socketPath gives a short path: those of sockets have at most 104 bytes, and
// the folder of a test is named after it.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rhumb-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "sock")
}

// launch runs a mesh and does not wait for it.
func launch(t *testing.T, opts Options) *running {
	t.Helper()
	m := &running{T: t, opts: opts, screen: &screen{wrote: make(chan struct{}, 1)}, ended: make(chan struct{})}
	m.opts.Out = m.screen
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() {
		defer close(m.ended)
		m.err = Run(ctx, m.opts)
	}()
	t.Cleanup(func() { cancel(); <-m.ended })
	return m
}

// start runs a mesh and waits until it says that it is ready.
func start(t *testing.T, opts Options) *running {
	t.Helper()
	m := launch(t, opts)
	m.awaitLine("ready; ")
	return m
}

// awaitLine waits until the person has been told.
func (m *running) awaitLine(text string) {
	m.Helper()
	timeout := time.After(limit)
	for !strings.Contains(m.screen.String(), text) {
		select {
		case <-m.screen.wrote:
		case <-m.ended:
			m.Fatalf("ended before it said %q: %v\n%s", text, m.err, m.screen)
		case <-timeout:
			m.Fatalf("did not say %q within %s:\n%s", text, limit, m.screen)
		}
	}
}

// end tells the mesh to stop and gives what Run returned.
func (m *running) end() error {
	m.Helper()
	m.stop()
	select {
	case <-m.ended:
		return m.err
	case <-time.After(limit):
		m.Fatalf("still running after %s:\n%s", limit, m.screen)
		return nil
	}
}

func (m *running) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	m.Cleanup(cancel)
	return ctx
}

func (m *running) send(c Command) (*State, error) {
	m.Helper()
	return Send(m.ctx(), m.opts.Control, c)
}

func (m *running) must(c Command) *State {
	m.Helper()
	s, err := m.send(c)
	if err != nil {
		m.Fatalf("%+v: %v", c, err)
	}
	return s
}

// client gives a Kafka client of the i-th region.
func (m *running) client(i int, opts ...kgo.Opt) *kgo.Client {
	m.Helper()
	at := addressesOf(i, m.opts.PortOffset).kafka
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(at), kgo.AllowAutoTopicCreation(), kgo.AlwaysRetryEOF(), kgo.UnknownTopicRetries(-1),
		kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(c.Close)
	return c
}

func (m *running) produce(i int, topic, value string) {
	m.Helper()
	if err := m.client(i).ProduceSync(m.ctx(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		m.Fatalf("produce in region %d: %v", i, err)
	}
}

// consume waits until the i-th region has as many records, and wants no others.
func (m *running) consume(i int, topic string, want ...string) {
	m.Helper()
	c, ctx := m.client(i, kgo.ConsumeTopics(topic)), m.ctx()
	var got []string
	for len(got) < len(want) {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			m.Fatalf("region %d has %q of %q, want %q", i, got, topic, want)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		m.Fatalf("region %d has %q of %q, want %q", i, got, topic, want)
	}
}

// leftovers gives what a mesh has left in the folder for temporary files.
func leftovers(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
