package cases

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

var (
	prices  = topicOf("prices")
	filling = topicOf("filling")
)

// eagerly compacts what is in closed log files, and forgets tombstones soon.
var eagerly = map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000"}

// put writes keys; an empty value is a tombstone.
func (n *node) put(t rhumb.Topic, pairs ...string) {
	n.mesh.Helper()
	var records []codec.PlainRecord
	for i := 0; i < len(pairs); i += 2 {
		r := codec.PlainRecord{Timestamp: time.Now().UnixMilli(), Key: []byte(pairs[i])}
		if pairs[i+1] != "" {
			r.Value = []byte(pairs[i+1])
		}
		records = append(records, r)
	}
	raw := codec.BuildBatch(codec.NoSender, records)
	h, err := codec.CheckBatch(raw)
	n.mesh.must(err)
	answer := make(chan region.AppendResult, 1)
	n.region().Append(n.partition(t, 0).Ref, region.AppendRequest{Batch: raw, Header: h}, func(r region.AppendResult) { answer <- r })
	n.mesh.must((<-answer).Err)
}

// fill writes so much into another topic that log files close in all regions, and lets
// compaction come round.
func (n *node) fill() {
	noise := make([]byte, 256<<10)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for range 6 {
		n.put(filling, "noise", string(noise))
	}
	n.mesh.pass(2 * time.Minute)
}

// table is what a reader of the whole topic ends with, and how many records it read.
func (n *node) table(t rhumb.Topic) (last map[string]string, records, tombstones int) {
	n.mesh.Helper()
	x := codec.NewExpander(codec.Limits{Bytes: 1 << 24, Window: 8 << 20})
	last = map[string]string{}
	for _, b := range n.read(t, 0) {
		r, err := x.Open(b.Batch)
		n.mesh.must(err)
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			n.mesh.must(err)
			records++
			if rec.Value == nil {
				tombstones++
				delete(last, string(rec.Key))
			} else {
				last[string(rec.Key)] = string(rec.Value)
			}
		}
		r.Close()
	}
	return last, records, tombstones
}

// alike checks that regions end with the same table, and that none has told of a gap.
func (ms *mesh) alike(want map[string]string, nodes ...*node) {
	ms.Helper()
	for _, n := range nodes {
		got, _, _ := n.table(prices)
		if !maps.Equal(got, want) {
			ms.Errorf("%s ends with %d keys, want %d\n%.500v\n%.500v", n.name, len(got), len(want), got, want)
		}
		if st, _ := n.region().State(n.partition(prices, 0).Ref); st.Gaps > 0 {
			ms.Errorf("%s has %d gaps", n.name, st.Gaps)
		}
	}
}

func compacted(ms *mesh, nodes []*node) {
	nodes[0].create(prices, 1, eagerly)
	nodes[0].create(filling, 1, nil)
	ms.everywhere(prices, 1)
	ms.everywhere(filling, 1)
}

// TestH5OldTombstoneCrossesALongOutage: while the line is down, keys are deleted and
// their tombstones become older than delete.retention.ms. They wait for the line; what
// was compacted away meanwhile does not come back on the other side.
func TestH5OldTombstoneCrossesALongOutage(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		compacted(ms, nodes)
		us, eu := nodes[0], nodes[1]
		want := map[string]string{}
		for i := range 60 {
			key := fmt.Sprint("key ", i%30)
			want[key] = fmt.Sprint("value ", i)
			us.put(prices, key, want[key])
		}
		ms.untilCopied(us, eu, prices, 0)
		ms.path(us, eu, relay.Settings{Cut: true})
		for i := range 20 {
			key := fmt.Sprint("key ", i)
			us.put(prices, key, "never seen", key, "")
			delete(want, key)
		}
		for i := range 10 {
			us.put(prices, "key 29", fmt.Sprint("over and over ", i))
		}
		want["key 29"] = "over and over 9"
		for range 4 {
			us.fill()
		}
		if _, records, tombstones := us.table(prices); tombstones != 20 || records > 35 {
			ms.Errorf("us has %d records, %d of them tombstones; the line waits for 20", records, tombstones)
		}
		us.kill()
		us.start()
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, prices, 0)
		ms.alike(want, us, eu)
		for range 3 {
			us.fill()
		}
		ms.untilCopied(us, eu, filling, 0)
		ms.pass(2 * time.Minute)
		for _, n := range nodes {
			if _, records, tombstones := n.table(prices); tombstones != 0 || records != len(want) {
				ms.Errorf("%s has %d records, %d of them tombstones, of %d keys", n.name, records, tombstones, len(want))
			}
		}
		ms.alike(want, us, eu)
		eu.kill()
		eu.start()
		ms.alike(want, us, eu)
	})
}

// TestH5RelayKeepsTombstonesOfOthers: a relay that compacts keeps the deletions of others
// that it has still to forward, over a restart, and what only its own or other regions'
// records supersede; the region behind it ends like the others.
func TestH5RelayKeepsTombstonesOfOthers(t *testing.T) {
	t.Parallel()
	names := []rhumb.RegionName{"us", "eu", "ap"}
	run(t, names, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
			n.Topology = &configstore.Topology{Chain: names}
			return nil
		})
		ms.must(err)
		compacted(ms, nodes)
		want := map[string]string{}
		for i := range 20 {
			want[fmt.Sprint("key ", i)] = fmt.Sprint("value ", i)
			us.put(prices, fmt.Sprint("key ", i), fmt.Sprint("value ", i))
		}
		ms.until("all the way", func() bool { return ms.copied(us, ap, prices, 0) })
		ms.path(eu, ap, relay.Settings{Cut: true})
		for i := range 10 {
			us.put(prices, fmt.Sprint("key ", i), "")
			delete(want, fmt.Sprint("key ", i))
		}
		us.put(prices, "key 19", "the last one")
		want["key 19"] = "the last one"
		ms.untilCopied(us, eu, prices, 0)
		for range 3 {
			us.fill()
			eu.fill()
		}
		if _, _, tombstones := eu.table(prices); tombstones != 10 {
			ms.Errorf("eu has %d tombstones; ap waits for 10", tombstones)
		}
		eu.kill()
		eu.start()
		eu.fill()
		if _, _, tombstones := eu.table(prices); tombstones != 10 {
			ms.Errorf("eu has %d tombstones after a restart; ap waits for 10", tombstones)
		}
		ms.path(eu, ap, near)
		ms.until("all the way", func() bool { return ms.copied(us, ap, prices, 0) })
		ms.alike(want, us, eu, ap)
		for range 3 {
			us.fill()
			eu.fill()
		}
		ms.pass(2 * time.Minute)
		if _, records, tombstones := eu.table(prices); tombstones != 0 || records != len(want) {
			ms.Errorf("eu has %d records, %d of them tombstones, of %d keys", records, tombstones, len(want))
		}
	})
}

// TestI3CompactedTopicEndsAlikeEverywhere: three regions write keys of their own into a
// topic that is compacted all the time, while lines are bad and regions lose power. In
// the end each has each key's last value, and no key that was deleted.
func TestI3CompactedTopicEndsAlikeEverywhere(t *testing.T) {
	seeds, rounds := uint64(3), 12
	if testing.Short() {
		seeds, rounds = 1, 4
	}
	first := uint64(0)
	if text := os.Getenv("RHUMB_SEEDS"); text != "" { // count or count,first
		if _, err := fmt.Sscanf(text+",0", "%d,%d", &seeds, &first); err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			endAlike(t, seed, rounds)
		})
	}
}

func endAlike(t *testing.T, seed uint64, rounds int) {
	run(t, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh, nodes []*node) {
		compacted(ms, nodes)
		rng := rand.New(rand.NewPCG(seed, 5))
		want := map[string]string{}
		for round := range rounds {
			a, b := nodes[rng.IntN(3)], nodes[rng.IntN(3)]
			if a != b {
				ms.path(a, b, relay.Settings{Cut: round%3 == 0, Delay: 50 * time.Millisecond, Loss: .02})
			}
			for i := range 150 {
				n := nodes[i%3]
				key, value := fmt.Sprint(n.name, " ", round*2+rng.IntN(12)), fmt.Sprint(round, " ", i)
				if rng.IntN(4) == 0 {
					value = ""
				}
				if want[key] = value; value == "" {
					delete(want, key)
				}
				n.put(prices, key, value)
			}
			nodes[rng.IntN(3)].fill()
			if rng.IntN(2) == 0 {
				a.kill()
				a.start()
			}
			if rng.IntN(3) == 0 {
				ms.pass(time.Duration(rng.IntN(60)) * time.Second) // compaction is under way
				b.kill()
				b.start()
			}
			if a != b {
				ms.path(a, b, near)
			}
		}
		for _, n := range nodes {
			n.fill()
		}
		for _, a := range nodes {
			for _, b := range nodes {
				if a != b {
					ms.untilCopied(a, b, prices, 0)
				}
			}
		}
		ms.alike(want, nodes...)
		for _, n := range nodes {
			_, records, _ := n.table(prices)
			if st, _ := n.region().State(n.partition(prices, 0).Ref); st.Compacted == 0 || int64(records) > int64(st.End)/3 {
				ms.Errorf("%s has %d records of %d, compacted below %d", n.name, records, st.End, st.Compacted)
			}
		}
	})
}
