package process

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

const (
	storedTopic      = "stored"
	storedPartitions = 48
	storedRecord     = 4096
	storedBatch      = 64 << 10
	// restartAim is what a region with 20 GB may take from its start to being ready.
	restartAim = 5 * time.Second
)

// TestRestartWithMuchStored fills a region, kills it while it is written to, starts it
// again, and looks whether what was stored is there, and that a region whose state
// database is lost refuses to start. STORED=20GiB (make restart) says how much; without
// it there is little, which shows that it works, and no time is judged.
func TestRestartWithMuchStored(t *testing.T) {
	size, judged := int64(24<<20), false
	if n, err := config.ParseBytes(os.Getenv("STORED")); err == nil && n > 0 {
		size, judged = int64(n), true
	} else if testing.Short() {
		t.Skip("starts processes")
	}
	limits := smallLimits
	if judged {
		limits = "{}" // as they are unless a file says otherwise
	}
	m := StartWithLimits(t, limits, "us")
	us := m.Regions[0]
	m.create("us", storedTopic, storedPartitions)
	m.create("us", "meanwhile", 1)
	began := time.Now()
	records := m.fill(us, size)
	m.note("%d MB are stored in batches of %d KiB, %.0f MB/s", size/1e6, storedBatch>>10, float64(size)/1e6/time.Since(began).Seconds())
	for _, cold := range []bool{false, true} {
		took := m.restartUnderLoad(us, cold)
		if judged && took > restartAim {
			t.Errorf("ready after %s, more than %s", took.Round(time.Millisecond), restartAim)
		}
		m.spotCheck(us, records)
	}
	m.Kill(us.Name)
	m.loseState(us)
}

// fill stores about as many bytes of noise, and gives how many records each partition has.
func (m *Mesh) fill(r *Region, size int64) (records []int64) {
	m.t.Helper()
	records = make([]int64, storedPartitions)
	var all sync.WaitGroup
	var failed atomic.Int64
	const clients = 4
	for i := range clients {
		c := Client(m.t, r.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.ProducerBatchMaxBytes(storedBatch), kgo.MaxBufferedRecords(2048), kgo.ProducerLinger(5*time.Millisecond), kgo.DefaultProduceTopic(storedTopic))
		all.Go(func() {
			noise := rand.NewChaCha8([32]byte{byte(i)})
			per := size / storedRecord / storedPartitions
			for n := range per {
				for p := i; p < storedPartitions; p += clients {
					c.Produce(context.Background(), &kgo.Record{Partition: int32(p), Value: storedValue(noise, n)}, func(_ *kgo.Record, err error) {
						if err != nil && failed.Add(1) == 1 {
							m.t.Errorf("a record was refused: %v", err)
						}
					})
				}
			}
			if err := c.Flush(context.Background()); err != nil {
				m.t.Errorf("not all is answered: %v", err)
			}
			for p := i; p < storedPartitions; p += clients {
				records[p] = per
			}
		})
	}
	all.Wait()
	return records
}

// storedValue is the n-th record of a partition: its number, and noise.
func storedValue(noise *rand.ChaCha8, n int64) []byte {
	v := make([]byte, storedRecord)
	_, _ = noise.Read(v) // it never fails
	binary.LittleEndian.PutUint64(v, uint64(n))
	return v
}

// restartUnderLoad kills a region that is written to, and gives how long it takes from
// its start until it is ready; cold: with none of its files in the page cache, on Linux.
func (m *Mesh) restartUnderLoad(r *Region, cold bool) time.Duration {
	m.t.Helper()
	tr := m.Produce("meanwhile", 1, 2, r.Name)
	tr.Progress(50, r.Name)
	m.Kill(r.Name)
	if cold {
		if err := forgetPages(dataOf(r)); err != nil {
			m.t.Fatal(err)
		}
	}
	began := time.Now()
	m.launch(r)
	m.awaitReady(r)
	ready := time.Since(began)
	tr.Progress(1, r.Name)
	taken := time.Since(began)
	s, err := sampleOf(r)
	if err != nil {
		m.t.Fatal(err)
	}
	m.note("%s was killed (cold: %t): ready after %s, a record is taken after %s; %.0f MB resident, %.0f open files", r.Name, cold, ready.Round(time.Millisecond),
		taken.Round(time.Millisecond), s.rss/1e6, s.files)
	tr.Finish()
	return ready
}

// spotCheck reads a record at the start, in the middle and at the end of some partitions.
func (m *Mesh) spotCheck(r *Region, records []int64) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	ends, err := kadm.NewClient(Client(m.t, r.Kafka)).ListEndOffsets(ctx, storedTopic)
	if err != nil {
		m.t.Fatal(err)
	}
	for p, n := range records {
		if end, _ := ends.Lookup(storedTopic, int32(p)); end.Offset != n {
			m.t.Errorf("partition %d ends at %d, %d records were stored", p, end.Offset, n)
		}
	}
	for p := int32(0); p < storedPartitions; p += 7 {
		for _, at := range []int64{0, records[p] / 2, records[p] - 1} {
			c := Client(m.t, r.Kafka, kgo.FetchMaxPartitionBytes(storedBatch), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{storedTopic: {p: kgo.NewOffset().At(at)}}))
			got := c.PollRecords(ctx, 1).Records()
			c.Close()
			if len(got) != 1 || got[0].Offset != at || binary.LittleEndian.Uint64(got[0].Value) != uint64(at) {
				m.t.Errorf("partition %d has at %d: %v", p, at, got)
			}
		}
	}
}

// loseState takes the state database of a region away that does not run: it must
// refuse to start, say why and what helps, and start as if nothing had been once the
// database is back.
func (m *Mesh) loseState(r *Region) {
	m.t.Helper()
	state := filepath.Join(dataOf(r), "state")
	if err := os.Rename(state, state+"-lost"); err != nil {
		m.t.Fatal(err)
	}
	began := time.Now()
	m.launch(r)
	code := r.running.Wait()
	m.note("without its state database it ends with %d after %s: %s", code, time.Since(began).Round(time.Millisecond), lastLines(r.running.Output(), 1))
	if code != 1 || !strings.Contains(r.running.Output(), "state") || !strings.Contains(r.running.Output(), "region replace") {
		m.t.Errorf("it ends with %d, or does not say what helps:\n%s", code, r.running.Output())
	}
	if err := os.RemoveAll(state); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(state+"-lost", state); err != nil {
		m.t.Fatal(err)
	}
	m.Restart(r.Name)
	if got := Ready(r.Admin); got != http.StatusOK {
		m.t.Errorf("not ready with the state database back: %d", got)
	}
}
