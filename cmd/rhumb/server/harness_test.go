package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// limit bounds each thing that a test waits for.
const limit = 2 * time.Minute

// fixture is a region alone that runs in this process, on real files and sockets.
type fixture struct {
	*testing.T
	cfg    config.Config
	disk   *disk
	log    *logBuffer
	server *Server
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // read after ended
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

// configure gives a configuration with a Kafka and an admin listener on free
// ports of the loopback interface.
func configure(t *testing.T) config.Config {
	cfg := config.Defaults()
	cfg.Region.Name, cfg.DataDir = "us", t.TempDir()
	cfg.ConfigStore.Embedded.Path = t.TempDir()
	cfg.Shards = 2
	cfg.Listeners = []config.Listener{listen("kafka", config.ProtocolKafka, "127.0.0.1:0"), listen("admin", config.ProtocolAdmin, "127.0.0.1:0")}
	cfg.Limits.LogFile, cfg.Limits.DiskReserve = 1<<20, 1<<20
	cfg.MinFree = config.MinFree{}
	cfg.ShutdownGrace = config.Duration(limit / 2) // so that it says what hangs before the test gives up
	return cfg
}

func listen(name, protocol, bind string) config.Listener {
	return config.Listener{Name: name, Protocol: protocol, Bind: bind}
}

// launch runs a region and does not wait until it is ready.
func launch(t *testing.T, cfg config.Config) *fixture {
	t.Helper()
	return launchBy(t, cfg, (*Server).Run)
}

func launchBy(t *testing.T, cfg config.Config, run func(*Server, context.Context) error) *fixture {
	t.Helper()
	return launchOn(t, cfg, &disk{FS: vfs.OS()}, run)
}

func launchOn(t *testing.T, cfg config.Config, on *disk, run func(*Server, context.Context) error) *fixture {
	t.Helper()
	f := &fixture{T: t, cfg: cfg, disk: on, log: &logBuffer{}, ended: make(chan struct{})}
	f.server = New(cfg, Options{FS: f.disk, Logger: slog.New(slog.NewTextHandler(f.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() {
		defer close(f.ended)
		f.err = run(f.server, ctx)
	}()
	t.Cleanup(func() {
		cancel()
		f.disk.release()
		<-f.ended
		if t.Failed() {
			t.Logf("log of the region:\n%s", f.log)
		}
	})
	return f
}

// start runs a region and waits until it is ready.
func start(t *testing.T, cfg config.Config) *fixture {
	t.Helper()
	f := launch(t, cfg)
	f.ready()
	return f
}

// ready waits until the region is.
func (f *fixture) ready() {
	f.Helper()
	select {
	case <-f.server.Ready():
	case <-f.ended:
		f.Fatalf("the region does not start: %v", f.err)
	case <-time.After(limit):
		f.Fatal("the region is not ready")
	}
}

// end waits for the end and gives what Run returned.
func (f *fixture) end() error {
	f.Helper()
	select {
	case <-f.ended:
		return f.err
	case <-time.After(limit):
		f.Fatal("the region still runs")
		return nil
	}
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	f.Cleanup(cancel)
	return ctx
}

// kafka and admin are where the region says that it listens.
func (f *fixture) kafka() string { return f.server.Self().Addresses[configstore.ProtocolKafka][0] }
func (f *fixture) admin() string { return f.server.Self().Addresses[configstore.ProtocolAdmin][0] }

func (f *fixture) client(addr string, opts ...kgo.Opt) *kgo.Client {
	f.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}, opts...)...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

func (f *fixture) produce(c *kgo.Client, topic, value string) {
	f.Helper()
	if err := c.ProduceSync(f.ctx(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		f.Fatalf("produce %q: %v", value, err)
	}
}

// consume reads as many records of a topic and wants exactly these.
func (f *fixture) consume(addr, topic string, want ...string) {
	f.Helper()
	c, ctx := f.client(addr, kgo.ConsumeTopics(topic)), f.ctx()
	defer c.Close()
	var got []string
	for len(got) < len(want) {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		f.Errorf("%s holds %q, want %q", topic, got, want)
	}
}

// get asks the HTTP API and gives status and body; status 0: nobody answers.
func get(url, token string) (int, string) { return call(http.MethodGet, url, token, "") }

// send makes a call with a JSON document.
func send(method, url, body string) (int, string) { return call(method, url, "", body) }

func call(method, url, token, body string) (int, string) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// until polls a condition until it holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// disk is the real file system, whose flushes can be held back or fail, and
// which lies about its free space on demand.
type disk struct {
	vfs.FS

	mu      sync.Mutex
	gate    chan struct{} // closed by release; nil: flushes pass
	waiting int           // flushes that are held back
	failure error         // of flushes
	usage   *vfs.Usage    // nil: the truth
	direct  func() error  // answers for TryDirect; nil: the truth
}

var errBroken = errors.New("broken disk")

// hold makes flushes wait until release.
func (d *disk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = make(chan struct{})
}

func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gate != nil {
		close(d.gate)
		d.gate = nil
	}
}

func (d *disk) held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
}

// TryDirect tries, or says what the test wants.
func (d *disk) TryDirect(dir string) error {
	if d.direct != nil {
		return d.direct()
	}
	return d.FS.TryDirect(dir)
}

func (d *disk) leave(free uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usage = &vfs.Usage{Total: 1 << 40, Free: free}
}

// flush waits and fails as it was told.
func (d *disk) flush() error {
	d.mu.Lock()
	gate := d.gate
	if gate != nil {
		d.waiting++
	}
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if gate != nil {
		d.waiting--
	}
	return d.failure
}

// DiskUsage lies on demand.
func (d *disk) DiskUsage(dir string) (vfs.Usage, error) {
	d.mu.Lock()
	usage := d.usage
	d.mu.Unlock()
	if usage != nil {
		return *usage, nil
	}
	return d.FS.DiskUsage(dir)
}

// Create and OpenReadWrite give files of this disk.
func (d *disk) Create(name string) (vfs.File, error) { return d.wrap(d.FS.Create(name)) }

// OpenReadWrite: see Create.
func (d *disk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

func (d *disk) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	vfs.File
	disk *disk
}

// Sync flushes if the disk lets it.
func (f *diskFile) Sync() error {
	if err := f.disk.flush(); err != nil {
		return err
	}
	return f.File.Sync()
}
