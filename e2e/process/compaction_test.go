package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic is compacted while it is written, and regions die by kill -9 in the middle.
// A consumer sees each key's last value, in both regions, from far fewer records than
// were written; verify takes no hole for a difference, and the files are sound.
func TestI1CompactedTopicThroughKills(t *testing.T) {
	updates, keys := 100_000, 1000
	if testing.Short() {
		updates = 60_000
	}
	m := Start(t, "us", "eu")
	policy := map[string]*string{"cleanup.policy": new("compact"), "min.cleanable.dirty.ratio": new("0.1")}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	if _, err := kadm.NewClient(Client(t, m.Region("us").Kafka)).CreateTopic(ctx, 2, 1, policy, "prices"); err != nil {
		t.Fatal(err)
	}
	m.awaitPartitions("us", "prices", 2)
	m.awaitPartitions("eu", "prices", 2)

	want := map[string]string{}
	write := func(from, to int) {
		c := Client(t, m.Region("us").Kafka, kgo.DefaultProduceTopic("prices"), kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer c.Close()
		var all sync.WaitGroup
		for i := from; i < to; i++ {
			key, value := fmt.Sprint("key ", rand.IntN(keys)), fmt.Sprintf("%d %0200d", i, i)
			r := &kgo.Record{Key: []byte(key), Value: []byte(value)}
			want[key] = value
			if i%17 == 0 {
				r.Value = nil
				delete(want, key)
			}
			all.Add(1)
			c.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
				all.Done()
			})
			if i == from+(to-from)/2 {
				m.Kill("us") // with records in flight
				m.Restart("us")
			}
		}
		all.Wait()
	}
	write(0, updates/2)
	m.Kill("eu")
	write(updates/2, updates)
	m.Restart("eu")
	for _, r := range m.Regions {
		m.compactsThroughAKill(r, want, updates/2)
	}
	m.Verify("prices")
	m.Stop()
	for _, r := range m.Regions {
		if res := Run(t, nil, "log", "verify", dataOf(r)); res.Code != 0 {
			t.Errorf("log verify of %s exits with %d:\n%s%s", r.Name, res.Code, res.Stdout, res.Stderr)
		}
		if len(segmentsOf(t, r)) == 0 {
			t.Errorf("%s has no segment", r.Name)
		}
	}
}

// compactsThroughAKill waits until a region compacts, kills it in the middle, and waits
// until a consumer gets the same table from fewer records than most.
func (m *Mesh) compactsThroughAKill(r *Region, want map[string]string, most int) {
	m.t.Helper()
	// The first segment is there before the state database knows it for good: a kill
	// just then takes the pass back, and loses nothing.
	Until(m.t, fmt.Sprintf("%s writes a segment", r.Name), func() bool { return len(segmentsOf(m.t, r)) > 0 })
	m.Kill(r.Name)
	m.Restart(r.Name)
	if table, records := tableOf(m.t, r.Kafka, "prices"); !same(m.t, table, want) {
		m.t.Errorf("%s ends with %d keys, want %d, after %d records", r.Name, len(table), len(want), records)
	}
	Until(m.t, fmt.Sprintf("%s has compacted the topic", r.Name), func() bool {
		table, records := tableOf(m.t, r.Kafka, "prices")
		return records < most && len(table) == len(want)
	})
}

// dataOf is the region's data directory.
func dataOf(r *Region) string {
	return filepath.Join(filepath.Dir(r.Config), "data-"+string(r.Name))
}

// segmentsOf lists what compaction has written.
func segmentsOf(t testing.TB, r *Region) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataOf(r), "segments", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tableOf is what a consumer of the whole topic ends with.
func tableOf(t testing.TB, kafka, topic string) (table map[string]string, records int) {
	table = map[string]string{}
	for _, list := range Read(t, kafka, topic) {
		for _, r := range list {
			records++
			if table[string(r.Key)] = string(r.Value); r.Value == nil {
				delete(table, string(r.Key))
			}
		}
	}
	return table, records
}

// same reports the first key of two tables that differs.
func same(t testing.TB, got, want map[string]string) bool {
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %.20q, want %.20q", key, got[key], value)
			return false
		}
	}
	return len(got) == len(want)
}
