package process

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Traffic is idempotent producers in all regions of a mesh, and what they were
// told. They never give up: whatever happens to a region, each record is sent
// until it is stored.
type Traffic struct {
	t         testing.TB
	topic     string
	producers []*producer
	stop      context.CancelFunc
	wait      sync.WaitGroup
}

// producer is one Kafka client. Its records are numbered in each partition.
type producer struct {
	name       string // such as us-0
	region     rhumb.RegionName
	topic      string
	partitions int
	client     *kgo.Client

	mu       sync.Mutex
	sent     int
	acked    int
	stored   map[string]int64 // by value: the offset that the producer was told
	failures []error
}

// pace is the time between two records of one producer, maxWaiting how many may
// be unanswered: with a region away, a producer stands still at that many.
const (
	pace       = time.Millisecond
	maxWaiting = 500
)

// Every largeEvery-th record has a tail of up to twice largeMost bytes.
const largeEvery, largeMost = 47, 30_000

// Client gives an idempotent Kafka client that keeps trying, and quickly: a
// region that was killed is back soon.
func Client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	quick := []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.StopProducerOnDataLossDetected(),
		kgo.AlwaysRetryEOF(), // else a kill before a connection's first answer is taken for a wrong address
	}
	c, err := kgo.NewClient(append(quick, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Produce starts n producers in each of the regions (none: in all), which write
// to all partitions of the topic until Finish or Abandon. Each has stored a
// record when it returns.
func (m *Mesh) Produce(topic string, partitions, n int, regions ...rhumb.RegionName) *Traffic {
	m.t.Helper()
	tr := &Traffic{t: m.t, topic: topic}
	ctx, cancel := context.WithCancel(context.Background())
	tr.stop = cancel
	m.t.Cleanup(func() { cancel(); tr.wait.Wait() })
	for _, r := range m.Regions {
		if len(regions) > 0 && !slices.Contains(regions, r.Name) {
			continue
		}
		for i := range n {
			p := &producer{name: fmt.Sprintf("%s-%d", r.Name, i), region: r.Name, topic: topic, partitions: partitions,
				stored: map[string]int64{}}
			p.client = Client(m.t, r.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond),
				kgo.MaxBufferedRecords(maxWaiting))
			tr.producers = append(tr.producers, p)
			tr.wait.Go(func() { p.run(ctx) })
		}
	}
	for _, p := range tr.producers {
		Until(m.t, p.name+" stores its first record", func() bool { return p.ackedSoFar() > 0 })
	}
	return tr
}

// value is a record of a producer: the n-th one in a partition. Some are large.
func value(producer string, partition int32, n int) string {
	v := fmt.Sprintf("%s %d %d", producer, partition, n)
	if n%largeEvery == 0 {
		v += strings.Repeat(" .", n*7919%largeMost)
	}
	return v
}

func (p *producer) run(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		n := p.sent
		p.sent++
		p.mu.Unlock()
		partition := int32(n % p.partitions)
		r := &kgo.Record{Topic: p.topic, Partition: partition, Value: []byte(value(p.name, partition, n/p.partitions))}
		// Not ctx: it would take back records that were sent already. When the
		// buffer is full this waits for the region.
		p.client.Produce(context.Background(), r, p.answered)
	}
}

func (p *producer) answered(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failures = append(p.failures, fmt.Errorf("%.40s: %w", r.Value, err))
		return
	}
	p.acked++
	p.stored[string(r.Value)] = r.Offset
}

func (p *producer) ackedSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked
}

// Progress waits until each producer of the regions has stored n more records.
func (tr *Traffic) Progress(n int, regions ...rhumb.RegionName) {
	tr.t.Helper()
	from := map[*producer]int{}
	for _, p := range tr.producers {
		from[p] = p.ackedSoFar()
	}
	for _, p := range tr.producers {
		if slices.Contains(regions, p.region) {
			Until(tr.t, fmt.Sprintf("%s stores %d records more", p.name, n), func() bool { return p.ackedSoFar() >= from[p]+n })
		}
	}
}

// Finish ends the producers when all that they have sent is answered: stored,
// every record.
func (tr *Traffic) Finish() {
	tr.t.Helper()
	tr.stop()
	tr.wait.Wait()
	for _, p := range tr.producers {
		ctx, cancel := context.WithTimeout(context.Background(), Limit)
		if err := p.client.Flush(ctx); err != nil {
			tr.t.Errorf("%s: not all is answered: %v", p.name, err)
		}
		cancel()
		p.client.Close()
		if len(p.failures) > 0 || p.acked != p.sent {
			tr.t.Errorf("%s: %d of %d records are stored, %d failed, the first: %v", p.name, p.acked, p.sent, len(p.failures), first(p.failures))
		}
	}
}

// Abandon ends the producers whatever is on its way.
func (tr *Traffic) Abandon() {
	tr.stop()
	for _, p := range tr.producers {
		p.client.Close()
	}
	tr.wait.Wait()
}

func first(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
