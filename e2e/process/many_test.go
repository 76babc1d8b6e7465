package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestManyTopics makes thousands of topics in one region, writes a batch to each and
// waits until the other region has them; then both are idle, a part of the topics get a
// record a second each, both are killed and started again, and the records go on at once.
// It measures what all that costs. MANY_TOPICS=50000 (make many-topics) says how many;
// without it there are few, which shows that it works, and no figure is judged.
// MANY_LIVE=10000 says how many get records, MANY_STEPS=live,restart,again what is done
// after the copies are there.
func TestManyTopics(t *testing.T) {
	m := &many{n: 300}
	steps := "live,restart,again"
	if n, err := strconv.Atoi(os.Getenv("MANY_TOPICS")); err == nil && n > 0 {
		m.n, m.judged, steps = n, true, "idle,"+steps
	} else if testing.Short() {
		t.Skip("starts processes")
	}
	if s, ok := os.LookupEnv("MANY_STEPS"); ok {
		steps = s
	}
	if m.lively = max(1, m.n/5); m.judged {
		if n, err := strconv.Atoi(os.Getenv("MANY_LIVE")); err == nil && n > 0 {
			m.lively = min(n, m.n)
		}
	}
	m.Mesh = StartBare(t, "us", "eu")
	m.wait = 10 * time.Minute
	m.create()
	m.write()
	for step := range strings.SplitSeq(steps, ",") {
		switch step {
		case "idle":
			m.idle()
		case "live":
			m.live("after idling")
		case "restart":
			m.restart()
		case "again":
			m.live("after the restart")
		}
	}
}

// many is a mesh with many topics.
type many struct {
	*Mesh
	n      int
	lively int // of these, how many get a record a second
	judged bool
	wait   time.Duration // for each step
}

func manyTopic(i int) string { return fmt.Sprintf("many-%06d", i) }

// each calls fn for ranges of so many topics, several at the same time.
func (m *many) each(size, together int, fn func(ctx context.Context, from, to int) error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), m.wait)
	defer cancel()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for from := int(next.Add(int64(size))) - size; from < m.n; from = int(next.Add(int64(size))) - size {
				if err := fn(ctx, from, min(from+size, m.n)); err != nil && failed.Add(1) == 1 {
					m.t.Errorf("topics from %d on: %v", from, err)
				}
			}
		})
	}
	all.Wait()
	if failed.Load() > 0 {
		m.t.FailNow()
	}
}

func (m *many) create() {
	began, used := time.Now(), m.cpu()
	adm := kadm.NewClient(Client(m.t, m.Regions[0].Kafka))
	adm.SetTimeoutMillis(int32(m.wait.Milliseconds()))
	m.each(1000, 4, func(ctx context.Context, from, to int) error {
		names := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			names = append(names, manyTopic(i))
		}
		made, err := adm.CreateTopics(ctx, 1, -1, nil, names...)
		if err != nil {
			return err
		}
		return made.Error()
	})
	m.figure("created", m.n, began, used)
}

// write publishes a batch of one record to each topic, and waits for the copies.
func (m *many) write() {
	began, used := time.Now(), m.cpu()
	m.each(1000, 4, func(ctx context.Context, from, to int) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(m.Regions[0].Kafka), kgo.ProducerLinger(5*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
		if err != nil {
			return err
		}
		defer c.Close()
		records := make([]*kgo.Record, 0, to-from)
		for i := from; i < to; i++ {
			records = append(records, &kgo.Record{Topic: manyTopic(i), Value: make([]byte, 100)})
		}
		return c.ProduceSync(ctx, records...).FirstErr()
	})
	m.figure("written", m.n, began, used)
	m.awaitCopies()
	m.figure("written and copied", m.n, began, used)
}

// awaitCopies waits until the other region has a record in each topic. It asks for the
// first of those that it has not seen there, few at a time: who asks for all again and
// again takes a good part of the machine that is measured.
func (m *many) awaitCopies() {
	const few, some = 10, 500
	c := Client(m.t, m.Regions[1].Kafka)
	defer c.Close()
	seen := 0
	Await(m.t, m.wait, "all are in the other region", func() bool {
		for n := few; seen < m.n; n = min(2*n, some) {
			next := min(seen+n, m.n)
			if m.recordsOf(c, seen, next) < next-seen {
				return false
			}
			seen = next
		}
		return true
	})
}

// records counts what a region has in all topics.
func (m *many) records(region int) (total int) {
	c := Client(m.t, m.Regions[region].Kafka)
	defer c.Close()
	for from := 0; from < m.n; from += asked {
		total += m.recordsOf(c, from, min(from+asked, m.n))
	}
	return total
}

// asked is of how many topics it is asked at once where they end.
const asked = 5000

// recordsOf counts what a region has in the topics of a range.
func (m *many) recordsOf(c *kgo.Client, from, to int) (total int) {
	ctx, cancel := context.WithTimeout(context.Background(), m.wait)
	defer cancel()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for i := from; i < to; i++ {
		t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		t.Topic, p.Timestamp, p.CurrentLeaderEpoch = manyTopic(i), -1, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.SeedBrokers()[0].RetriableRequest(ctx, req)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				total += int(p.Offset)
			}
		}
	}
	return total
}

// figure tells how long something took.
func (m *many) figure(what string, n int, began time.Time, used []float64) {
	took, now := time.Since(began), m.cpu()
	m.note("%s: %d in %s, %.0f a second; CPU seconds: us %.1f, eu %.1f, clients %.1f", what, n, took.Round(time.Millisecond), float64(n)/took.Seconds(),
		now[0]-used[0], now[1]-used[1], now[2]-used[2])
}

// cpu gives the CPU seconds of the regions' processes, and of this one, in which the
// clients are. They are asked of Linux, in ticks of 10 ms: a scrape of metrics looks at
// each partition, which an idle region would not be idle with.
func (m *many) cpu() (all []float64) {
	for _, r := range m.Regions {
		used, ok := cpuOf(r.Process().PID())
		if !ok {
			used = m.metric(r, "process_cpu_seconds_total")
		}
		all = append(all, used)
	}
	own, _ := cpuOf(os.Getpid())
	return append(all, own)
}

// cpuOf gives the CPU seconds of a process, false where the system is not Linux.
func cpuOf(pid int) (seconds float64, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, true
}

func (m *many) metric(r *Region, name string) float64 {
	v, err := metricsOf(r)
	if err != nil {
		m.t.Fatal(err)
	}
	return v[name]
}

// idle measures regions in which nothing happens.
func (m *many) idle() {
	const watch = 30 * time.Second
	busy := func() float64 {
		before := m.cpu()
		<-time.After(watch)
		after := m.cpu()
		return max(after[0]-before[0], after[1]-before[1]) / watch.Seconds() * 100
	}
	share := 100.0
	Await(m.t, m.wait, "the regions become idle", func() bool { share = busy(); return share < 4 })
	for i, r := range m.Regions {
		began, used := time.Now(), m.cpu()
		resp, err := http.Get("http://" + r.Admin + "/metrics")
		if err != nil {
			m.t.Fatal(err)
		}
		size, _ := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		scrape, after := time.Since(began), m.cpu()
		s, err := sampleOf(r)
		if err != nil {
			m.t.Fatal(err)
		}
		m.note("%s idle: %.1f %% of a core at most, %.0f MB resident, %.0f open files, %.0f goroutines; a scrape is %d KB in %s and takes %.2f CPU s", r.Name, share,
			s.rss/1e6, s.files, s.goroutines, size/1000, scrape.Round(time.Millisecond), after[i]-used[i])
		if s.rss > 1e9 || s.files > 900 {
			m.t.Errorf("%s has %.0f MB resident and %.0f open files", r.Name, s.rss/1e6, s.files)
		}
	}
}

// restart kills each region, and starts it again until a client's record is taken.
func (m *many) restart() {
	for i, r := range m.Regions {
		m.Kill(r.Name)
		began := time.Now()
		m.launch(r)
		m.awaitReady(r)
		ready := time.Since(began)
		ctx, cancel := context.WithTimeout(context.Background(), m.wait)
		err := Client(m.t, r.Kafka).ProduceSync(ctx, &kgo.Record{Topic: manyTopic(m.n - 1), Value: []byte("again")}).FirstErr()
		cancel()
		if err != nil {
			m.t.Fatal(err)
		}
		m.note("%s was killed: ready after %s, a record is taken after %s", r.Name, ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		if got := m.records(i); got < m.n {
			m.t.Errorf("%s has %d records of %d", r.Name, got, m.n)
		}
	}
}

// live publishes a record a second to each of some topics, and measures when it is read
// in the other region.
func (m *many) live(when string) {
	n, length := m.lively, 30*time.Second
	if !m.judged {
		length = 3 * time.Second
	}
	writers := m.writers(n)
	for _, w := range writers {
		defer w.Close()
	}
	m.note("%s: a record a second in %d topics begins", when, n)
	began, used := time.Now(), m.cpu()
	counts := began.Add(length / 3)
	reader := m.follow(m.Regions[1], n, counts)
	ctx, cancel := context.WithCancel(context.Background())
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()
	reads.Go(func() { reader.run(ctx) })
	sent := m.publish(writers, length, counts)
	took, after := time.Since(began), m.cpu()
	lags := &reader.lags
	Await(m.t, m.wait, "all records are read", func() bool { return lags.count() >= sent })
	m.note("%s: %d topics, a record a second each: lag p50 %s, p99 %s, most %s of %d records, in %d fetches; CPU: us %.0f %%, eu %.0f %% of a core", when, n,
		lags.at(0.5), lags.at(0.99), lags.at(1), sent, reader.fetches.Load(), (after[0]-used[0])/took.Seconds()*100, (after[1]-used[1])/took.Seconds()*100)
}

// eachWriter is how many topics a client writes to: for each request it looks at all of
// them, and would be what is measured.
const eachWriter = 1000

// writers makes clients that write to so many topics, and know them: they would ask for
// all again and again while new ones come one after the other.
func (m *many) writers(n int) (all []*kgo.Client) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), m.wait)
	defer cancel()
	for from := 0; from < n; from += eachWriter {
		c := Client(m.t, m.Regions[0].Kafka, kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(4*eachWriter))
		var records []*kgo.Record
		for i := from; i < min(n, from+eachWriter); i++ {
			records = append(records, &kgo.Record{Topic: manyTopic(i), Value: []byte("first")})
		}
		if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
			m.t.Fatal(err)
		}
		all = append(all, c)
	}
	m.note("%d clients have written to %d topics in %s", len(all), n, time.Since(began).Round(time.Millisecond))
	return all
}

// publish goes round the topics, one record a second for each, and tells how many
// records count: those from a moment on.
func (m *many) publish(writers []*kgo.Client, length time.Duration, counts time.Time) (counted int) {
	n := m.lively
	began, sent := time.Now(), 0
	flush := func() {
		for _, c := range writers {
			if err := c.Flush(context.Background()); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := range tick.C {
		if now.Sub(began) > length {
			break
		}
		for due := int(now.Sub(began).Seconds() * float64(n)); sent < due; sent++ {
			at := time.Now()
			if at.UnixMilli() >= counts.UnixMilli() {
				if counted == 0 { // no batch holds both: of one only the first and the last time are known
					flush()
					at = time.Now()
				}
				counted++
			}
			r := &kgo.Record{Topic: manyTopic(sent % n), Value: make([]byte, 100), Timestamp: at}
			writers[sent%n/eachWriter].Produce(context.Background(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					m.t.Errorf("a record was refused: %v", err)
				}
			})
		}
	}
	flush()
	return counted
}

// lagList keeps how long records took.
type lagList struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *lagList) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *lagList) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// at gives the lag that a share of the records did not exceed.
func (l *lagList) at(share float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[int(share*float64(len(l.all)-1))].Round(100 * time.Microsecond)
}
