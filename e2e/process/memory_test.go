package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// memoryLimit is what each region of TestMemoryStaysBounded is given, and what its
// process may never have resident. The race detector takes several times that.
const memoryLimit = 512 << 20

var memoryJudged = len(raceFlags) == 0

// TestMemoryStaysBounded puts one load after the other on two regions with
// limits.memory: 512MiB. None may ever have more than that resident (the kernel's
// high-water mark), each load has to come to its end, and in the end the regions hold
// the same. MEMORY=1m (make memory) says how long a load lasts; without it they are
// short. MEMORY_GROUPS=true has a control group of the kernel limit each process instead, of
// which the file says nothing: that takes root.
func TestMemoryStaysBounded(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("MEMORY"))
	if err != nil {
		if testing.Short() {
			t.Skip("starts processes")
		}
		length = time.Second
	}
	m := &Mesh{t: t, limits: fmt.Sprintf("{memory: %d}", memoryLimit)}
	if os.Getenv("MEMORY_GROUPS") != "" {
		groups := t.TempDir() // their names only
		m.limits = "{}"
		m.before = func(r *Region) string { return controlGroup(t, filepath.Base(filepath.Dir(groups))+"-"+string(r.Name)) }
	}
	l := &loads{Mesh: start(m, []rhumb.RegionName{"us", "eu"}), length: length}
	if _, ok := l.peak(l.Regions[0]); !ok {
		t.Skip("only Linux tells how much memory a process had")
	}
	for _, load := range []struct {
		name string
		run  func()
	}{
		{"full speed, 1 KiB", func() { l.fullSpeed("kib", 1024, 12) }},
		{"full speed, 100 bytes", func() { l.fullSpeed("small", 100, 12) }},
		{"large requests", l.largeRequests},
		{"a peer that is away", l.awayPeer},
		{"slow consumers", l.slowConsumers},
		{"many topics", l.manyTopics},
	} {
		began := time.Now()
		load.run()
		if t.Failed() {
			return
		}
		l.told(load.name, began)
	}
	l.Verify(l.topics...)
	l.told("comparing", time.Now())
}

// loads is a mesh and what it carries.
type loads struct {
	*Mesh
	length time.Duration
	topics []string
}

// peak gives the most that a region's process ever had resident.
func (l *loads) peak(r *Region) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process().PID()))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmHWM:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// told judges the memory after a load, and has the kernel forget the peak, so that the
// next one's is its own.
func (l *loads) told(what string, began time.Time) {
	l.t.Helper()
	for _, r := range l.Regions {
		peak, _ := l.peak(r)
		l.note("%s, %s: at most %d MiB resident in %s", what, time.Since(began).Round(100*time.Millisecond), peak>>20, r.Name)
		if memoryJudged && peak > memoryLimit {
			l.t.Errorf("%s: %s had %d MiB resident, limits.memory is %d MiB", what, r.Name, peak>>20, int64(memoryLimit)>>20)
		}
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.Process().PID()), []byte("5"), 0) // without it the next one's peak is this one's, or more
	}
}

func (l *loads) make(topic string, partitions int32) {
	l.t.Helper()
	l.create("us", topic, partitions)
	l.topics = append(l.topics, topic)
}

// publishers has several clients publish for the length of a load, and gives how many
// records were stored: all that were sent, or the test fails.
func (l *loads) publishers(topic string, clients, size int, opts ...kgo.Opt) int64 {
	l.t.Helper()
	var sent, failed atomic.Int64
	var all sync.WaitGroup
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * i >> 3)
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.length)
	defer cancel()
	opts = append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(8 << 20 / size)}, opts...)
	for range clients {
		c := Client(l.t, l.Regions[0].Kafka, opts...)
		all.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				c.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
					if err != nil && failed.Add(1) == 1 {
						l.t.Errorf("a record of %s was refused: %v", topic, err)
					}
				})
			}
			end, cancel := context.WithTimeout(context.Background(), 2*Limit)
			defer cancel()
			if err := c.Flush(end); err != nil {
				l.t.Errorf("%s: not all is answered: %v", topic, err)
			}
			c.Close()
		})
	}
	all.Wait()
	return sent.Load()
}

// copied waits until a topic has as many records in both regions.
func (l *loads) copied(topic string, records int64) {
	l.t.Helper()
	for _, r := range l.Regions {
		adm := kadm.NewClient(Client(l.t, r.Kafka))
		Await(l.t, 5*time.Minute, fmt.Sprintf("%s has %d records of %s", r.Name, records, topic), func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), Limit)
			defer cancel()
			ends, err := adm.ListEndOffsets(ctx, topic)
			total := int64(0)
			ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
			return err == nil && total == records
		})
	}
}

// consume has clients read a topic from its start until the context ends, and counts.
func (l *loads) consume(ctx context.Context, r *Region, topic string, clients int, opts ...kgo.Opt) (read *atomic.Int64, ended *sync.WaitGroup) {
	read, ended = &atomic.Int64{}, &sync.WaitGroup{}
	for range clients {
		c := Client(l.t, r.Kafka, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
		ended.Go(func() {
			for ctx.Err() == nil {
				f := c.PollFetches(ctx)
				read.Add(int64(f.NumRecords()))
			}
			c.Close()
		})
	}
	return read, ended
}

// fullSpeed publishes with many clients while others read in both regions.
func (l *loads) fullSpeed(topic string, size, clients int) {
	l.t.Helper()
	l.make(topic, 24)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const readers = 2
	counts := []*atomic.Int64{}
	for _, r := range l.Regions {
		read, ended := l.consume(ctx, r, topic, readers)
		defer ended.Wait()
		counts = append(counts, read)
	}
	defer cancel()
	records := l.publishers(topic, clients, size)
	l.copied(topic, records)
	for i, read := range counts {
		Await(l.t, 5*time.Minute, fmt.Sprintf("all is read in %s", l.Regions[i].Name), func() bool { return read.Load() >= readers*records })
	}
	l.note("%s: %d records, %.1f MB", topic, records, float64(records)*float64(size)/1e6)
}

// largeRequests publishes records of 900 KB to many partitions: a client puts all
// that wait into one request.
func (l *loads) largeRequests() {
	l.t.Helper()
	l.make("large", 48)
	records := l.publishers("large", 6, 900_000, kgo.MaxBufferedRecords(48), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(100*time.Millisecond))
	l.copied("large", records)
	l.note("large: %d records of 900 KB", records)
}

// awayPeer kills a region, publishes what it will lack, and has it back.
func (l *loads) awayPeer() {
	l.t.Helper()
	l.make("backlog", 24)
	l.Kill("eu")
	records := l.publishers("backlog", 6, 1024)
	l.Restart("eu")
	l.copied("backlog", records)
	l.note("backlog: %d records", records)
}

// slowConn reads as a client on a bad line does.
type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 8<<10)])
	<-time.After(20 * time.Millisecond)
	return n, err
}

// slowConsumers ask for much and read it slowly, while others publish.
func (l *loads) slowConsumers() {
	l.t.Helper()
	const clients = 150
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dial := kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return slowConn{c}, err
	})
	read, ended := l.consume(ctx, l.Regions[0], "kib", clients, dial, kgo.FetchMaxBytes(50<<20), kgo.FetchMaxPartitionBytes(16<<20), kgo.MaxConcurrentFetches(1))
	defer ended.Wait()
	defer cancel()
	Await(l.t, 2*Limit, "slow consumers read", func() bool { return read.Load() > 0 })
	l.make("beside", 4)
	l.copied("beside", l.publishers("beside", 4, 1024))
	l.note("slow consumers read %d records meanwhile", read.Load())
}

// manyTopics makes topics and publishes a record to each.
func (l *loads) manyTopics() {
	l.t.Helper()
	m := &many{Mesh: l.Mesh, n: 300, wait: 5 * time.Minute}
	if l.length >= 10*time.Second {
		m.n = 5000
	}
	m.create()
	m.write()
}
