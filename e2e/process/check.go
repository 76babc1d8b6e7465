package process

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Read reads all that a region holds of a topic, from the start to the end that
// it has now, by partition.
func Read(t testing.TB, kafka, topic string) map[int32][]*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	c := Client(t, kafka, kgo.ConsumeTopics(topic))
	defer c.Close()
	ends := endsOf(ctx, t, kadm.NewClient(c), topic)
	out, left := map[int32][]*kgo.Record{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %s at %s: nothing comes, though these partitions go further: %v", topic, kafka, left)
		}
		fetches.EachError(func(_ string, p int32, err error) { t.Errorf("read %s/%d at %s: %v", topic, p, kafka, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= left[r.Partition] {
				return
			}
			out[r.Partition] = append(out[r.Partition], r)
			if r.Offset == left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// endsOf asks where a topic's partitions end. One that has only just come to a region
// may have no leader yet: a client asks again.
func endsOf(ctx context.Context, t testing.TB, c *kadm.Client, topic string) kadm.ListedOffsets {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := c.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		var kafka *kerr.Error
		switch {
		case err == nil:
			return ends
		case !errors.As(err, &kafka) || !kafka.Retriable || ctx.Err() != nil:
			t.Fatalf("ends of %s: %v", topic, err)
		}
		<-tick.C
	}
}

// Check reads the topic in each region: every record that a producer was told is
// stored is there once, in the order of its producer, and in its own region at
// the offset that was told. Nothing else is there, but what the other traffic of
// the topic has stored.
func (tr *Traffic) Check(m *Mesh, others ...*Traffic) {
	tr.t.Helper()
	for _, o := range others {
		tr.producers = append(tr.producers, o.producers...)
	}
	for _, r := range m.Regions {
		tr.checkRegion(r)
	}
}

// maxWrong is how many wrong records of a partition are shown: one lost record
// makes all behind it wrong.
const maxWrong = 10

func (tr *Traffic) checkRegion(r *Region) {
	tr.t.Helper()
	next := map[string]int{} // by producer and partition
	total := 0
	for partition, records := range Read(tr.t, r.Kafka, tr.topic) {
		wrong := 0
		for _, rec := range records {
			if !tr.checkRecord(r, partition, rec, next) {
				wrong++
			}
			if wrong == maxWrong {
				tr.t.Errorf("%s partition %d: more like these are not shown", r.Name, partition)
				break
			}
		}
		total += len(records)
	}
	for _, p := range tr.producers {
		got := 0
		for partition := range p.partitions {
			got += next[p.name+" "+strconv.Itoa(partition)]
		}
		if got != p.acked {
			tr.t.Errorf("%s has %d records of %s, which stored %d", r.Name, got, p.name, p.acked)
		}
	}
	tr.t.Logf("%s holds %d records of %s", r.Name, total, tr.topic)
}

func (tr *Traffic) checkRecord(r *Region, partition int32, rec *kgo.Record, next map[string]int) (right bool) {
	tr.t.Helper()
	name, _, _ := strings.Cut(string(rec.Value), " ")
	key := name + " " + strconv.Itoa(int(partition))
	want := value(name, partition, next[key])
	if right = string(rec.Value) == want; !right {
		tr.t.Errorf("%s partition %d offset %d is %.40q, want %.40q", r.Name, partition, rec.Offset, rec.Value, want)
	}
	next[key]++
	for _, p := range tr.producers {
		if told, ok := p.stored[string(rec.Value)]; ok && p.region == r.Name && told != rec.Offset {
			tr.t.Errorf("%s: %.40q is at offset %d, the producer was told %d", r.Name, rec.Value, rec.Offset, told)
			right = false
		}
	}
	return right
}

// Verify runs `rhumb verify` on each pair of regions until they hold the same;
// exit code 0 is its word for that.
func (m *Mesh) Verify(topics ...string) {
	m.t.Helper()
	for i, a := range m.Regions {
		for _, b := range m.Regions[i+1:] {
			m.verifyPair(a.Name, b.Name, topics)
		}
	}
}

func (m *Mesh) verifyPair(a, b rhumb.RegionName, topics []string) {
	m.t.Helper()
	args := append([]string{"verify", string(a), string(b), "--wait", Limit.String()}, topics...)
	res := m.Run(args...)
	m.note("verified %s and %s", a, b)
	if res.Code != 0 {
		m.t.Errorf("rhumb %s exits with %d:\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
}

// verifyIncomplete waits until two regions hold the same but for what no link
// brings from one to the other, which `rhumb verify` does not call equal.
func (m *Mesh) verifyIncomplete(a, b rhumb.RegionName, topic, says string) {
	m.t.Helper()
	res := m.Run("verify", string(a), string(b), topic, "--wait", Limit.String())
	m.note("verified %s and %s", a, b)
	if res.Code != 2 || !strings.Contains(res.Stdout, says) {
		m.t.Errorf("rhumb verify %s %s exits with %d, want 2 and %q:\n%s%s", a, b, res.Code, says, res.Stdout, res.Stderr)
	}
}
