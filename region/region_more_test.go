package region

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// restart ends a node as a power loss would and starts it on what is left.
func (n *node) restart(seed uint64, change func(*Config, *storage.Config)) *node {
	n.t.Helper()
	fs := n.fs.CrashClone(vfs.CrashOptions{Seed: seed})
	n.stop(true)
	return startNode(n.t, fs, change)
}

func pause(d time.Duration) { <-time.NewTimer(d).C }

func TestI1RestartKeepsWhatWasAcknowledged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 3)
		cluster := n.ClusterID()
		pid, err := n.ProducerID(context.Background())
		if err != nil || pid>>48 != 7 || pid <= 0 {
			t.Fatalf("producer id %x: %v", pid, err)
		}
		next, appended := int32(0), map[rhumb.PartitionRef]rhumb.Offset{}
		for seed := range uint64(6) {
			for i := range 50 {
				ref := info.Partitions[i%3].Ref
				var change func(*codec.BatchHeader)
				if i%3 == 0 {
					change = func(h *codec.BatchHeader) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = pid, 0, next }
					next += 2
				}
				r := n.append(ref, makeBatch(2, 300+i, change))
				if r.Err != nil || r.Base != appended[ref] {
					t.Fatalf("append: %+v, want offset %d", r, appended[ref])
				}
				appended[ref] += 2
			}
			n = n.restart(seed, nil)
			again, ok := n.Topic(testTopic)
			if !ok || again.ID != info.ID || !again.Ready() || n.ClusterID() != cluster {
				t.Fatalf("topic %+v, cluster %s", again, n.ClusterID())
			}
			for ref, end := range appended {
				st, _ := n.State(ref)
				got, err := n.Read(ref, Query{From: 0, Limit: end, MaxBytes: 1 << 30})
				if err != nil || st.End != end || st.Flushed != end || len(got) != int(end/2) {
					t.Fatalf("I1: %d batches, state %+v, want end %d: %v", len(got), st, end, err)
				}
			}
			// The producer's table came back with the batches.
			change := func(h *codec.BatchHeader) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = pid, 0, next-2 }
			if r := n.append(info.Partitions[0].Ref, makeBatch(2, 0, change)); r.Err != nil || !r.Duplicate {
				t.Fatalf("a copy after the restart: %+v", r)
			}
			id, err := n.ProducerID(context.Background())
			if err != nil || id <= pid {
				t.Fatalf("producer id %x after %x: %v", id, pid, err)
			}
		}
	})
}

func TestTopicDeletionAndRecreation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		old := n.topic(testTopic, 4)
		ref := old.Partitions[2].Ref
		n.append(ref, makeBatch(3, 10, nil))
		if again, err := n.CreateTopic(ctx, TopicSpec{Topic: testTopic, Partitions: 1}); rhumb.KindOf(err) != rhumb.KindExists || again.ID != old.ID {
			t.Fatalf("created twice: %+v, %v", again, err)
		}
		group := GroupKey{Tenant: "public", Namespace: "default", Group: "g"}
		commit := OffsetCommit{TopicID: old.ID, Topic: testTopic, Partition: 2, Offset: 3, Metadata: "m", LeaderEpoch: -1, At: 5}
		if err := answerOf(func(done func(error)) { n.StoreOffsets(group, []OffsetCommit{commit}, done) }); err != nil {
			t.Fatal(err)
		}
		w := NewWaiter()
		if !n.AddWaiter(ref, w) {
			t.Fatal("no partition to wait for")
		}
		if err := n.DeleteTopic(ctx, testTopic, old.Deletions); err != nil {
			t.Fatal(err)
		}
		if _, ok := n.Topic(testTopic); !ok {
			t.Fatal("a count that is not higher deleted the topic")
		}
		if err := n.DeleteTopic(ctx, testTopic, old.Deletions+1); err != nil {
			t.Fatal(err)
		}
		if _, err := n.CreateTopic(ctx, TopicSpec{Topic: testTopic, Partitions: 1}); rhumb.KindOf(err) != rhumb.KindFenced {
			t.Fatalf("born under an old count: %v", err)
		}
		fresh, err := n.CreateTopic(ctx, TopicSpec{Topic: testTopic, Partitions: 4, Deletions: 1})
		if err != nil || fresh.ID == old.ID {
			t.Fatalf("%+v: %v", fresh, err)
		}
		synctest.Wait()
		<-w.C
		if _, ok := n.State(ref); ok {
			t.Fatal("the old partition is still there")
		}
		if got := n.Offsets(group); len(got) != 0 {
			t.Fatalf("offsets of a deleted topic: %+v", got)
		}
		for i, p := range fresh.Partitions {
			st, ok := n.State(p.Ref)
			if !ok || st.End != 0 || st.Deletions != 1 || p.Life == old.Partitions[i].Life || st.Life != p.Life {
				t.Fatalf("partition %d: %+v", i, st)
			}
		}
		n = n.restart(3, nil)
		if again, ok := n.Topic(testTopic); !ok || again.ID != fresh.ID || n.Deletions(testTopic) != 1 {
			t.Fatalf("after the restart: %+v", again)
		}
		grown, err := n.GrowTopic(ctx, testTopic, 6)
		if err != nil || len(grown.Partitions) != 6 || !grown.Ready() || grown.Partitions[3].Life != fresh.Partitions[3].Life {
			t.Fatalf("grown: %+v, %v", grown, err)
		}
	})
}

func TestCommitAfterDeletionIsSwept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 1)
		if err := n.DeleteTopic(ctx, testTopic, 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		group := GroupKey{Tenant: "public", Namespace: "default", Group: "late"}
		if err := answerOf(func(done func(error)) {
			n.StoreOffsets(group, []OffsetCommit{{TopicID: info.ID, Topic: testTopic}}, done)
		}); err != nil {
			t.Fatal(err)
		}
		pause(2 * time.Minute)
		if got := n.Offsets(group); len(got) != 0 {
			t.Fatalf("offsets of a deleted topic: %+v", got)
		}
	})
}

func TestRetentionMovesTheLogStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		byTime := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "by-time"}
		bySize := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "by-size"}
		aged, err := n.CreateTopic(ctx, TopicSpec{Topic: byTime, Partitions: 1, Configs: map[string]string{"retention.ms": "600000"}})
		if err != nil {
			t.Fatal(err)
		}
		sized, err := n.CreateTopic(ctx, TopicSpec{Topic: bySize, Partitions: 1, Configs: map[string]string{"retention.bytes": "3000"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			now := time.Now().UnixMilli()
			for _, ref := range []rhumb.PartitionRef{aged.Partitions[0].Ref, sized.Partitions[0].Ref} {
				n.append(ref, makeBatch(1, 851, func(h *codec.BatchHeader) { h.FirstTimestamp, h.MaxTimestamp = now, now }))
			}
			pause(2 * time.Minute)
		}
		// 1000 bytes each with the envelope; the youngest of ten is 2 minutes old.
		if st, _ := n.State(sized.Partitions[0].Ref); st.LogStart != 7 {
			t.Errorf("by size: log start %d of %d, %d bytes", st.LogStart, st.End, st.Bytes)
		}
		if st, _ := n.State(aged.Partitions[0].Ref); st.LogStart < 5 || st.LogStart > 6 {
			t.Errorf("by time: log start %d of %d", st.LogStart, st.End)
		}
		if start, err := n.DeleteRecords(ctx, aged.Partitions[0].Ref, -1); err != nil || start != 10 {
			t.Errorf("delete all records: %d, %v", start, err)
		}
		if _, err := n.DeleteRecords(ctx, aged.Partitions[0].Ref, 11); rhumb.KindOf(err) != rhumb.KindOutOfRange {
			t.Errorf("delete past the end: %v", err)
		}
		if _, err := n.Read(aged.Partitions[0].Ref, Query{From: 3, Limit: 10, MaxBytes: 1}); rhumb.KindOf(err) != rhumb.KindOutOfRange {
			t.Errorf("read below the log start: %v", err)
		}
	})
}

func TestI12FlushedFollowsTheDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lazy := func(c *Config, s *storage.Config) {
			c.Durability, s.Durability, s.FlushInterval = storage.DurabilityInterval, storage.DurabilityInterval, time.Second
		}
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), lazy)
		ref := n.topic(testTopic, 1).Partitions[0].Ref
		pause(3 * time.Second)
		if r := n.append(ref, makeBatch(1, 10, nil)); r.Err != nil {
			t.Fatal(r.Err)
		}
		st, _ := n.State(ref)
		if st.End != 1 || st.Flushed != 0 {
			t.Fatalf("before the flush: %+v", st)
		}
		if got, err := n.ReadOrigin(ref, OriginQuery{Region: 7, Life: st.Life, Limit: 10, MaxBytes: 100}); err != nil || len(got) != 0 {
			t.Fatalf("I12: unflushed batches may leave: %v, %v", got, err)
		}
		w := NewWaiter()
		n.AddWaiter(ref, w)
		<-w.C
		if st, _ := n.State(ref); st.Flushed != 1 {
			t.Fatalf("after the flush: %+v", st)
		}
		// A link hears of its batch after the flush only.
		begun, life := time.Now(), rhumb.Life{9}
		b := makeBatch(1, 5, nil)
		h, _ := codec.CheckBatch(b)
		e := codec.Envelope{Region: 9, Life: life, Prev: -1, Chain: codec.NextChain(0, 0, 0, h.CRC), Count: 1}
		c := make(chan LinkResult, 1)
		n.AppendLink(ref, LinkBatch{Envelope: e, Batch: b}, func(r LinkResult) { c <- r })
		if r := <-c; r.Err != nil || r.Watermark.Offset != 0 {
			t.Fatalf("link: %+v", r)
		}
		if time.Since(begun) < 10*time.Millisecond {
			t.Fatalf("I12: confirmed after %v", time.Since(begun))
		}
		if st, _ := n.State(ref); st.Flushed != st.End {
			t.Fatalf("I12: confirmed before the flush: %+v", st)
		}
	})
}

func TestG91BytesInFlightAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), func(c *Config, _ *storage.Config) { c.InFlight = 10 << 10 })
		ref := n.topic(testTopic, 1).Partitions[0].Ref
		var refused, stored int
		results := make(chan AppendResult, 100)
		for range 100 {
			b := makeBatch(1, 1000, nil)
			h, _ := codec.CheckBatch(b)
			n.Append(ref, AppendRequest{Batch: b, Header: h}, func(r AppendResult) { results <- r })
		}
		for range 100 {
			if r := <-results; r.Err == nil {
				stored++
			} else if rhumb.KindOf(r.Err) == rhumb.KindUnavailable {
				refused++
			}
		}
		st, _ := n.State(ref)
		if stored+refused != 100 || refused == 0 || st.End != rhumb.Offset(stored) || n.Health().InFlight != 0 {
			t.Fatalf("%d stored, %d refused, end %d, %d bytes in flight", stored, refused, st.End, n.Health().InFlight)
		}
		if r := n.append(ref, makeBatch(1, 64<<10, nil)); r.Err != nil {
			t.Fatalf("a batch above the budget goes alone: %v", r.Err)
		}
	})
}

func TestLowSpaceRefusesDataAndOpensAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		var free atomic.Uint64
		free.Store(10 << 30)
		fs.SetUsage(func() (vfs.Usage, error) { return vfs.Usage{Total: 100 << 30, Free: free.Load()}, nil })
		n := startNode(t, fs, func(_ *Config, s *storage.Config) { s.MinFree = 1 << 30 })
		ref := n.topic(testTopic, 1).Partitions[0].Ref
		n.append(ref, makeBatch(1, 10, nil))
		free.Store(1 << 20)
		pause(3 * time.Second)
		if r := n.append(ref, makeBatch(1, 10, nil)); rhumb.KindOf(r.Err) != rhumb.KindNoSpace {
			t.Fatalf("%+v", r)
		}
		if h := n.Health(); rhumb.KindOf(h.Store) != rhumb.KindNoSpace || h.OK() {
			t.Fatalf("health %+v", h)
		}
		if start, err := n.DeleteRecords(context.Background(), ref, -1); err != nil || start != 1 {
			t.Fatalf("deletion goes on: %d, %v", start, err)
		}
		free.Store(10 << 30)
		pause(3 * time.Second)
		if r := n.append(ref, makeBatch(1, 10, nil)); r.Err != nil || r.Base != 1 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestFailedFlushEndsTheRegion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := startNode(t, fs, nil)
		ref := n.topic(testTopic, 1).Partitions[0].Ref
		n.append(ref, makeBatch(1, 10, nil))
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				return fmt.Errorf("disk says no")
			}
			return nil
		})
		r := n.append(ref, makeBatch(1, 10, nil))
		if rhumb.KindOf(r.Err) != rhumb.KindUnavailable {
			t.Fatalf("%+v", r)
		}
		<-n.ended
		if r := n.append(ref, makeBatch(1, 10, nil)); rhumb.KindOf(r.Err) != rhumb.KindUnavailable {
			t.Fatalf("after the end: %+v", r)
		}
		fs.SetHook(nil)
		n.stop(true)
		n = startNode(t, fs.CrashClone(vfs.CrashOptions{Seed: 1}), nil)
		if st, _ := n.State(ref); st.End < 1 || st.End > 2 {
			t.Fatalf("after the restart: %+v", st)
		}
	})
}

// answerOf waits for a write that is handed over.
func answerOf(write func(done func(error))) error {
	c := make(chan error, 1)
	write(func(err error) { c <- err })
	return <-c
}

func TestGroups(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 2)
		for i := range 20 {
			k := GroupKey{Tenant: "public", Namespace: "default", Group: fmt.Sprint("group-", i)}
			commits := []OffsetCommit{{TopicID: info.ID, Topic: testTopic, Partition: 1, Offset: rhumb.Offset(i), Metadata: "x", LeaderEpoch: 2}}
			if err := answerOf(func(done func(error)) { n.StoreOffsets(k, commits, done) }); err != nil {
				t.Fatal(err)
			}
			if err := answerOf(func(done func(error)) { n.StorePutGroup(k, []byte{1, byte(i)}, done) }); err != nil {
				t.Fatal(err)
			}
		}
		n = n.restart(9, nil)
		k := GroupKey{Tenant: "public", Namespace: "default", Group: "group-7"}
		got := n.Offsets(k)
		if c := got[OffsetKey{TopicID: info.ID, Partition: 1}]; len(got) != 1 || c.Offset != 7 || c.Metadata != "x" || c.Topic != testTopic || c.LeaderEpoch != 2 {
			t.Fatalf("offsets %+v", got)
		}
		if b := n.Group(k); len(b) != 2 || b[1] != 7 || len(n.Groups()) != 20 {
			t.Fatalf("group %x of %d", b, len(n.Groups()))
		}
		at := []OffsetKey{{TopicID: info.ID, Partition: 1}}
		newer := OffsetCommit{TopicID: info.ID, Topic: testTopic, Partition: 1, Offset: 99, At: 1000}
		n.StoreOffsets(k, []OffsetCommit{newer}, func(error) {})
		if err := answerOf(func(done func(error)) { n.StoreDeleteOffsets(k, at, 1000, done) }); err != nil || n.Offsets(k)[at[0]].Offset != 99 {
			t.Fatalf("a position that was stored meanwhile: %v, %v", n.Offsets(k), err)
		}
		if err := answerOf(func(done func(error)) { n.StoreDeleteOffsets(k, at, 0, done) }); err != nil || len(n.Offsets(k)) != 0 || n.Group(k) == nil {
			t.Fatalf("delete offsets: %v", err)
		}
		if err := answerOf(func(done func(error)) { n.StoreDeleteGroup(k, done) }); err != nil || n.Group(k) != nil || len(n.Groups()) != 19 {
			t.Fatalf("delete group: %v", err)
		}
	})
}

// TestIdleRegionWritesNothing: groups of one voter have no heartbeat.
func TestIdleRegionWritesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		recent := func(h *codec.BatchHeader) { h.MaxTimestamp = time.Now().UnixMilli() } // or retention has work
		n.append(n.topic(testTopic, 3).Partitions[0].Ref, makeBatch(1, 10, recent))
		pause(time.Minute)
		writes := 0
		n.fs.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync {
				writes++
			}
			return nil
		})
		pause(time.Hour)
		n.fs.SetHook(nil)
		if writes > 0 {
			t.Errorf("%d writes in an idle hour", writes)
		}
	})
}

// TestLargeTopicsAreStartedTogether: partitions share flushes.
func TestLargeTopicsAreStartedTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 500)
		seen := map[rhumb.PartitionRef]bool{}
		shards := map[rhumb.ShardID]int{}
		for _, p := range info.Partitions {
			if !p.Ready || p.Life.IsZero() || seen[p.Ref] {
				t.Fatalf("partition %+v", p)
			}
			seen[p.Ref] = true
			shards[p.Ref.Shard]++
		}
		if len(shards) != 3 || shards[0] != 0 {
			t.Errorf("spread over shards: %v", shards)
		}
	})
}
