package process

import (
	"cmp"
	"context"
	"encoding/binary"
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
)

// TestSoak runs for SOAK (make soak: an hour): two regions carry 70 % of what they
// were seen to carry, in both directions, while the link between them gets three faults
// a minute. A consumer in each region sees every record of the other one once and in
// order; memory, open files and goroutines stay what they were; in the end the
// regions hold the same.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil || length < time.Minute {
		t.Skip("set SOAK to how long it may take, such as 10m; at least 1m")
	}
	m := StartWithLimits(t, fmt.Sprintf("{log_file: 4MiB, disk_reserve: 4MiB, memory: %d}", memoryLimit), "us", "eu")
	m.soakTopic()
	s := &soak{m: m, streams: []*stream{newStream(m, "us", "eu"), newStream(m, "eu", "us")}}
	full := s.fullSpeed(20 * time.Second)
	m.note("full speed is %.1f MB/s in both directions together", full/1e6)
	s.run(length, full*7/10)
	m.note("%d records were carried, all is answered", s.finish())
	s.judge()
	s.verify()
	m.Stop()
	for _, r := range m.Regions {
		if res := Run(t, nil, "log", "verify", dataOf(r)); res.Code != 0 {
			t.Errorf("log verify of %s exits with %d:\n%s%s", r.Name, res.Code, res.Stdout, res.Stderr)
		}
	}
}

const (
	soakTopic      = "soak"
	soakPartitions = 6
	soakRecord     = 1024
	// soakKeep is how much of a partition is kept.
	soakKeep = 128 << 20
	// soakAhead is how many records a stream may be ahead of its reader, far more than
	// a fault of the link holds up. It is a third of what is kept: regions that were
	// behind by all of it would hold little but each other's records, and nothing in
	// both that could be compared.
	soakAhead = soakKeep / 3 * soakPartitions / soakRecord
)

func (m *Mesh) soakTopic() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	adm := kadm.NewClient(Client(m.t, m.Regions[0].Kafka))
	if _, err := adm.CreateTopic(ctx, soakPartitions, 1, map[string]*string{"retention.bytes": new(strconv.Itoa(soakKeep))}, soakTopic); err != nil {
		m.t.Fatal(err)
	}
	for _, r := range m.Regions {
		m.awaitPartitions(r.Name, soakTopic, soakPartitions)
	}
}

// stream is what is published in one region and read in the other. A record begins
// with the region's first letter and its number in its partition.
type stream struct {
	m              *Mesh
	mark           byte
	client, reader *kgo.Client
	sent           [soakPartitions]uint64
	next           [soakPartitions]uint64 // at the reader
	carried        atomic.Int64
	refused        atomic.Int64
	read           sync.WaitGroup
	stop           context.CancelFunc
}

func newStream(m *Mesh, from, to string) *stream {
	s := &stream{m: m, mark: from[0]}
	source, target := m.Regions[0], m.Regions[1]
	if string(source.Name) != from {
		source, target = target, source
	}
	s.client = Client(m.t, source.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(8<<10), kgo.DefaultProduceTopic(soakTopic))
	s.reader = Client(m.t, target.Kafka, kgo.ConsumeTopics(soakTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	m.t.Cleanup(func() { cancel(); s.read.Wait() })
	s.read.Go(func() { s.consume(ctx) })
	return s
}

// send publishes one record; it waits while too many are not answered.
func (s *stream) send(n int) {
	p := n / 64 % soakPartitions
	v := make([]byte, soakRecord)
	v[0] = s.mark
	binary.LittleEndian.PutUint64(v[1:], s.sent[p])
	for i := 16; i+8 < len(v); i += 16 { // half of it is noise: it shrinks, but not to nothing
		binary.LittleEndian.PutUint64(v[i:], (uint64(n)+uint64(i))*0x9e3779b97f4a7c15)
	}
	s.sent[p]++
	s.client.Produce(context.Background(), &kgo.Record{Partition: int32(p), Value: v}, func(_ *kgo.Record, err error) {
		if err != nil && s.refused.Add(1) == 1 {
			s.m.t.Errorf("a record of %c was refused: %v", s.mark, err)
		}
	})
}

func (s *stream) consume(ctx context.Context) {
	wrong := 0
	for ctx.Err() == nil {
		s.reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if len(r.Value) != soakRecord || r.Value[0] != s.mark {
				return // of the other stream
			}
			n := binary.LittleEndian.Uint64(r.Value[1:])
			if n != s.next[r.Partition] && wrong < maxWrong {
				wrong++
				s.m.t.Errorf("partition %d: record %d of %c came where %d was expected", r.Partition, n, s.mark, s.next[r.Partition])
			}
			s.next[r.Partition] = n + 1
			s.carried.Add(1)
		})
	}
}

func (s *stream) total() (n int64) {
	for _, sent := range s.sent {
		n += int64(sent)
	}
	return n
}

// soak is two streams and what was seen of the regions meanwhile.
type soak struct {
	m       *Mesh
	streams []*stream
	seen    map[string][]sample // by region
}

// sample is what a region says of itself: resident memory, what the last collection
// of garbage left of the heap, open files and goroutines.
type sample struct{ rss, live, files, goroutines float64 }

// fullSpeed publishes as fast as it is taken, and gives bytes per second up to the
// last record's arrival, of all streams together.
func (s *soak) fullSpeed(d time.Duration) float64 {
	start := time.Now()
	s.each(func(st *stream) {
		for n := 0; time.Since(start) < d; n++ {
			st.send(n)
		}
	})
	records := s.settle()
	return float64(records) * soakRecord / time.Since(start).Seconds()
}

func (s *soak) each(fn func(*stream)) {
	var all sync.WaitGroup
	for _, st := range s.streams {
		all.Go(func() { fn(st) })
	}
	all.Wait()
}

// settle waits until all that was sent is answered and has arrived.
func (s *soak) settle() (records int64) {
	for _, st := range s.streams {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		if err := st.client.Flush(ctx); err != nil {
			s.m.t.Fatalf("not all is answered: %v", err)
		}
		tick := time.NewTicker(20 * time.Millisecond)
		for st.carried.Load() < st.total() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				s.m.t.Fatalf("%d of %d records of %c arrived", st.carried.Load(), st.total(), st.mark)
			}
		}
		tick.Stop()
		cancel()
		records += st.total()
	}
	return records
}

// soakFaults come one after the other, one every soakEvery, each for soakFault.
var soakFaults = []string{
	"cut=true",
	"rtt=40ms,loss=0.1%",
	"reorder=1%,duplicate=1%",
	"rtt=20ms,jitter=10ms",
	"rate=100mbit",
	"loss=1%",
}

const (
	soakEvery = 20 * time.Second
	soakFault = 8 * time.Second
)

// run publishes at a rate in bytes per second.
func (s *soak) run(length time.Duration, rate float64) {
	s.seen = map[string][]sample{}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var faults sync.WaitGroup
	faults.Go(func() { s.disturb(ctx) })
	interval := time.Duration(float64(time.Second) * soakRecord * 16 * float64(len(s.streams)) / rate)
	s.each(func(st *stream) {
		start, base, held := time.Now(), int(st.total()), time.Duration(0)
		defer func() {
			s.m.note("%c: %.1f MB/s were published, of the time %.0f %% was waiting for the other region", st.mark,
				float64(int(st.total())-base)*soakRecord/1e6/length.Seconds(), 100*held.Seconds()/length.Seconds())
		}()
		for n := 0; ctx.Err() == nil; n++ {
			wait := time.NewTimer(time.Until(start.Add(time.Duration(n) * interval)))
			select {
			case <-wait.C:
			case <-ctx.Done():
				return
			}
			waited := st.wait(ctx)
			start, held = start.Add(waited), held+waited
			for i := range 16 {
				st.send(base + n*16 + i)
			}
		}
	})
	faults.Wait()
	s.m.Heal()
}

// wait waits while the stream is too far ahead of its reader, and gives how long.
func (s *stream) wait(ctx context.Context) time.Duration {
	began := time.Now()
	if s.total()-s.carried.Load() <= soakAhead {
		return 0
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && s.total()-s.carried.Load() > soakAhead {
		<-tick.C
	}
	return time.Since(began)
}

// disturb makes faults, and looks at the regions before each.
func (s *soak) disturb(ctx context.Context) {
	every := time.NewTicker(soakEvery)
	defer every.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		s.look()
		fault := soakFaults[i%len(soakFaults)]
		s.m.Link("us", "eu", fault)
		s.m.Link("eu", "us", fault)
		select {
		case <-ctx.Done():
		case <-time.After(soakFault):
		}
		s.m.Heal()
	}
}

func (s *soak) look() {
	for _, r := range s.m.Regions {
		if v, err := sampleOf(r); err == nil {
			s.seen[string(r.Name)] = append(s.seen[string(r.Name)], v)
		} else {
			s.m.t.Errorf("metrics of %s: %v", r.Name, err)
		}
	}
}

func sampleOf(r *Region) (v sample, err error) {
	all, err := metricsOf(r)
	if err != nil {
		return v, err
	}
	v = sample{all["process_resident_memory_bytes"], all["go_gc_heap_live_bytes"], all["process_open_fds"], all["go_goroutines"]}
	if v.rss == 0 || v.live == 0 || v.files == 0 || v.goroutines == 0 {
		return v, fmt.Errorf("not all is told: %+v", v)
	}
	return v, nil
}

// metricsOf gives the metrics of a region that have no labels.
func metricsOf(r *Region) (map[string]float64, error) {
	resp, err := http.Get("http://" + r.Admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.SplitSeq(string(text), "\n") {
		name, value, _ := strings.Cut(line, " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	return all, nil
}

func (s *soak) finish() int64 {
	n := s.settle()
	for _, st := range s.streams {
		st.stop()
		st.read.Wait()
		st.client.Close()
	}
	return n
}

// verify has the regions compared. Retention may still drop what is being compared,
// and then nothing is proven (exit code 2): that is asked again, a difference is not.
func (s *soak) verify() {
	s.m.t.Helper()
	var res Result
	for range 5 {
		res = s.m.Run("verify", "us", "eu", soakTopic, "--wait", Limit.String())
		s.m.note("verify exits with %d", res.Code)
		if res.Code != 2 {
			break
		}
	}
	if res.Code != 0 {
		s.m.t.Errorf("rhumb verify exits with %d:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// judge compares the last third of the samples with the third before it: what was
// still warming up is in the first. What grows for ever grows there. Each third counts
// with its middle sample: what a fault holds up comes and goes again. Resident memory
// follows the collector, which lets garbage lie while there is room, so it is held
// against the limit only.
func (s *soak) judge() {
	for region, all := range s.seen {
		third := len(all) / 3
		if third == 0 {
			s.m.t.Logf("%s: too short to tell growth", region)
			continue
		}
		before, after := middle(all[third:len(all)-third]), middle(all[len(all)-third:])
		peak := slices.MaxFunc(all, func(a, b sample) int { return cmp.Compare(a.rss, b.rss) }).rss
		s.m.note("%s: live heap %.0f then %.0f MB, files %.0f then %.0f, goroutines %.0f then %.0f, at most %.0f MB resident", region,
			before.live/1e6, after.live/1e6, before.files, after.files, before.goroutines, after.goroutines, peak/1e6)
		if after.live > before.live*5/4+24e6 || after.files > before.files*5/4+16 || after.goroutines > before.goroutines*5/4+32 {
			s.m.t.Errorf("%s grows: %+v, later %+v", region, before, after)
		}
		if memoryJudged && peak > memoryLimit {
			s.m.t.Errorf("%s has %.0f MB resident, limits.memory is %.0f MB", region, peak/1e6, float64(memoryLimit)/1e6)
		}
	}
}

// middle takes the median of each figure.
func middle(samples []sample) sample {
	of := func(figure func(sample) float64) float64 {
		all := make([]float64, len(samples))
		for i, v := range samples {
			all[i] = figure(v)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return sample{of(func(v sample) float64 { return v.rss }), of(func(v sample) float64 { return v.live }),
		of(func(v sample) float64 { return v.files }), of(func(v sample) float64 { return v.goroutines })}
}
