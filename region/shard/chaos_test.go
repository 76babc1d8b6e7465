package shard

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var (
	chaosSeeds = flag.Int("chaos.seeds", 12, "number of random schedules")
	chaosFirst = flag.Uint64("chaos.first", 1, "first seed")
)

const perProducer = 400

// filler makes batches large enough for the entries kept for late followers to
// run out.
var filler = strings.Repeat("x", 1000)

// history is what clients were told, and what was ever read from any replica.
type history struct {
	mu    sync.Mutex
	t     *testing.T
	seen  map[rhumb.Offset]uint32 // CRC of the batch at a base offset, as read
	acked map[rhumb.Offset]uint32 // as answered to producers
	start rhumb.Offset            // log start of the newest leader seen
	epoch int32                   // its term
}

func (h *history) observe(base rhumb.Offset, crc uint32) {
	if old, ok := h.seen[base]; ok && old != crc {
		h.t.Fatalf("I2: offset %d named the batch %08x, and now %08x", base, old, crc)
	}
	h.seen[base] = crc
}

// watch reads what a replica shows.
func (h *history) watch(n *replica, id rhumb.PartitionID) {
	st, ok := n.State(id)
	if !ok {
		return
	}
	got, err := n.Read(&st, Query{Partition: id, From: st.LogStart, Limit: st.End, MaxBytes: 1 << 30})
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if st.Leading && st.LeaderEpoch >= h.epoch {
		if st.LogStart < h.start {
			h.t.Fatalf("I2: log start fell from %d to %d, term %d to %d", h.start, st.LogStart, h.epoch, st.LeaderEpoch)
		}
		h.start, h.epoch = st.LogStart, st.LeaderEpoch
	}
	for _, b := range got {
		bh, err := codec.CheckBatch(b.Batch)
		if err != nil || bh.BaseOffset != b.Base {
			h.t.Fatalf("batch at %d: %+v, %v", b.Base, bh, err)
		}
		h.observe(b.Base, bh.CRC)
	}
}

// current gives the replica that leads by now, nil if none.
func (c *cluster) current() *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *replica
	for _, n := range c.nodes[1:] {
		if n.up && n.Leading() && (best == nil || n.epoch.Load() > best.epoch.Load()) {
			best = n
		}
	}
	return best
}

// produce appends batches of one idempotent producer, several in flight, and
// sends again from the first that failed, as a Kafka client does.
func (h *history) produce(ctx context.Context, c *cluster, id rhumb.PartitionID, pid int64, total int) {
	done := 0
	for done < total && ctx.Err() == nil {
		l := c.current()
		if l == nil {
			pause(50 * time.Millisecond)
			continue
		}
		type answer struct {
			r   AppendResult
			crc uint32
		}
		n := min(4, total-done)
		answers := make([]chan answer, n)
		for i := range n {
			answers[i] = make(chan answer, 1)
			b, bh := batch(1, fmt.Sprintf("%d/%d%s", pid, done+i, filler), sequenced(pid, 0, int32(done+i)))
			ch := answers[i]
			l.Append(id, AppendRequest{b, bh}, func(r AppendResult) { ch <- answer{r, bh.CRC} })
		}
		ok := true
		for i := range n {
			var a answer
			select {
			case a = <-answers[i]:
			case <-time.After(3 * time.Second): // lost with its leader
				ok = false
			}
			if !ok || a.r.Err != nil {
				ok = false
				continue
			}
			h.mu.Lock()
			if old, was := h.acked[a.r.Base]; was && old != a.crc {
				h.t.Errorf("I2: offset %d was given to %08x and %08x", a.r.Base, old, a.crc)
			}
			h.acked[a.r.Base] = a.crc
			h.mu.Unlock()
			done = max(done, done+1)
		}
		pause(time.Duration(30+done%7*40) * time.Millisecond)
	}
}

// replicate sends an origin's batches as a link does: from the watermark on, a
// window at a time, back to the watermark after each refusal.
func (h *history) replicate(ctx context.Context, c *cluster, id rhumb.PartitionID, batches []LinkBatch) {
	last := batches[len(batches)-1].Envelope.Last
	for ctx.Err() == nil {
		l := c.current()
		if l == nil {
			pause(50 * time.Millisecond)
			continue
		}
		opening, cancel := context.WithTimeout(ctx, 2*time.Second)
		w, err := l.OpenOrigin(opening, id, 9, batches[0].Envelope.Life)
		cancel()
		if err != nil {
			pause(50 * time.Millisecond)
			continue
		}
		if w.Offset == last {
			return
		}
		next := 0
		for batches[next].Envelope.First <= w.Offset {
			next++
		}
		window := batches[next:min(next+6, len(batches))]
		answers := make(chan LinkResult, len(window))
		for _, b := range window {
			l.AppendLink(id, b.copied(), func(r LinkResult) { answers <- r })
		}
		for range window {
			select {
			case r := <-answers:
				if r.Err == nil && (r.Verdict == dedup.Diverged || r.Verdict == dedup.Invalid) {
					h.t.Errorf("I3: a link batch is %s at %+v", r.Verdict, r.Watermark)
					return
				}
			case <-time.After(3 * time.Second):
			}
		}
		pause(time.Duration(30+next%7*60) * time.Millisecond)
	}
}

// disturb breaks one thing after the other until ctx ends.
func (c *cluster) disturb(ctx context.Context, id rhumb.PartitionID) {
	for ctx.Err() == nil {
		c.mu.Lock()
		victim := 1 + c.rng.Uint64N(3)
		what := c.rng.IntN(7)
		wait := time.Duration(200+c.rng.IntN(2500)) * time.Millisecond
		c.mu.Unlock()
		if l := c.current(); l != nil && what%2 == 0 {
			victim = l.id
		}
		switch what {
		case 0, 1:
			c.crash(victim)
			pause(wait)
			c.start(victim)
		case 2, 3:
			c.isolate(victim, true)
			pause(wait)
			c.isolate(victim, false)
		case 4:
			c.mu.Lock()
			c.loss, c.delay = 0.15, 60*time.Millisecond
			c.mu.Unlock()
			pause(wait)
			c.mu.Lock()
			c.loss, c.delay = 0, 2*time.Millisecond
			c.mu.Unlock()
		case 5:
			if l := c.current(); l != nil {
				if st, ok := l.State(id); ok && st.End > 100 {
					move, cancel := context.WithTimeout(ctx, time.Second)
					_, _ = l.MoveLogStart(move, id, st.End-100, rhumb.ReasonDeleted)
					cancel()
				}
			}
		case 6:
			if l := c.current(); l != nil {
				if st, ok := l.State(id); ok && len(st.Past) < 20 {
					change, cancel := context.WithTimeout(ctx, time.Second)
					_, _, _ = l.NewLife(change, id, LifeChange{Old: st.Life, Last: st.OwnLast, Chain: st.OwnChain})
					cancel()
				}
			}
		}
		pause(time.Duration(100) * time.Millisecond)
	}
}

// TestI2I3I11Chaos runs producers and a link against three replicas that crash
// and lose each other.
func TestI2I3I11Chaos(t *testing.T) {
	for i := range *chaosSeeds {
		seed := *chaosFirst + uint64(i)
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				chaos(t, startCluster(t, seed, func(cfg *Config) { cfg.Keep = 32 << 10 }))
			})
		})
	}
}

// TestI1I2I3I11ChaosOnStores does the same on the real store.
func TestI1I2I3I11ChaosOnStores(t *testing.T) {
	for i := range (*chaosSeeds + 3) / 4 {
		seed := *chaosFirst + uint64(i)
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				chaos(t, startClusterOn(t, seed, func(cfg *Config) { cfg.Keep = 32 << 10 }, onStores(seed)))
			})
		})
	}
}

func chaos(t *testing.T, c *cluster) {
	begun := time.Now()
	l := c.leader(20 * time.Second)
	id, _, err := l.CreatePartition(context.Background(), PartitionSpec{Topic: soloTopic})
	if err != nil {
		t.Fatal(err)
	}
	c.converge(10 * time.Second)
	h := &history{t: t, seen: map[rhumb.Offset]uint32{}, acked: map[rhumb.Offset]uint32{}}
	o := newOrigin(3)
	var batches []LinkBatch
	for i := range 400 {
		batches = append(batches, o.next(1+i%3, fmt.Sprint("origin ", i, filler)))
	}
	work, stopWork := context.WithTimeout(context.Background(), 4*time.Minute)
	defer stopWork()
	faults, stopFaults := context.WithTimeout(context.Background(), 30*time.Second)
	defer stopFaults()
	var clients, trouble sync.WaitGroup
	for pid := range int64(3) {
		clients.Go(func() { h.produce(work, c, id, pid, perProducer) })
	}
	clients.Go(func() { h.replicate(work, c, id, batches) })
	trouble.Go(func() { c.disturb(faults, id) })
	for faults.Err() == nil {
		pause(500 * time.Millisecond)
		for _, n := range c.nodes[1:] {
			c.mu.Lock()
			up := n.up
			c.mu.Unlock()
			if up {
				h.watch(n, id)
			}
		}
	}
	trouble.Wait()
	clients.Wait()
	if work.Err() != nil {
		t.Fatal("clients did not finish")
	}
	c.converge(30 * time.Second)
	for _, n := range c.nodes[1:] {
		h.watch(n, id)
	}
	h.check(c, id, batches)
	st, _ := c.nodes[1].State(id)
	t.Logf("term %d, end %d, log start %d, %d snapshots offered, %d batches in them, %v of virtual time",
		st.LeaderEpoch, st.End, st.LogStart, c.offers, c.chunked, time.Since(begun))
}

// check looks at the history and the log as a whole.
func (h *history) check(c *cluster, id rhumb.PartitionID, batches []LinkBatch) {
	for base, crc := range h.acked {
		if seen, ok := h.seen[base]; ok && seen != crc {
			h.t.Errorf("I1: offset %d was answered for %08x and holds %08x", base, crc, seen)
		}
	}
	l := c.leader(10 * time.Second)
	st, _ := l.State(id)
	if st.Flushed != st.End || st.OwnFloor != st.LogStart-1 {
		h.t.Errorf("state %+v", st)
	}
	own, foreign := rhumb.Offset(0), 0
	for _, b := range batches {
		foreign += int(b.Envelope.Last-b.Envelope.First) + 1
	}
	own = st.End - rhumb.Offset(foreign)
	if own != 3*perProducer {
		h.t.Errorf("I3: %d own records, want %d", own, 3*perProducer)
	}
	for _, n := range c.nodes[1:] {
		h.checkLog(n, id, st)
	}
}

// checkLog reads a replica's log: no holes, each producer's and the origin's
// batches in order and once.
func (h *history) checkLog(n *replica, id rhumb.PartitionID, st PartitionState) {
	got, err := n.Read(&st, Query{Partition: id, From: st.LogStart, Limit: st.End, MaxBytes: 1 << 30})
	if err != nil {
		h.t.Fatal(err)
	}
	next, origin := rhumb.Offset(-1), rhumb.Offset(-1)
	sequences := map[int64]int32{}
	for _, b := range got {
		if next >= 0 && b.Base != next {
			h.t.Fatalf("replica %d: hole from %d to %d", n.id, next, b.Base)
		}
		next = b.Base + b.Envelope.Last - b.Envelope.First + 1
		bh, _ := codec.ParseBatch(b.Batch)
		if bh.Idempotent() {
			if want := st.lifeAt(b.Base); b.Envelope.Life != want {
				h.t.Errorf("I2: replica %d: own batch at %d is of life %s, want %s", n.id, b.Base, b.Envelope.Life, want)
			}
			if s, ok := sequences[bh.ProducerID]; ok && bh.BaseSequence != s+1 {
				h.t.Errorf("I3: producer %d: sequence %d after %d", bh.ProducerID, bh.BaseSequence, s)
			}
			sequences[bh.ProducerID] = bh.BaseSequence
			continue
		}
		if origin >= 0 && b.Envelope.Prev != origin {
			h.t.Errorf("I3: origin offset %d after %d", b.Envelope.First, origin)
		}
		origin = b.Envelope.Last
	}
	if next >= 0 && next != st.End {
		h.t.Errorf("replica %d: log ends at %d, want %d", n.id, next, st.End)
	}
}

func TestLateFollowerIsFilledUpBySnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := startCluster(t, 5, func(cfg *Config) { cfg.Keep = 64 << 10 })
		l := c.leader(10 * time.Second)
		id, _, err := l.CreatePartition(context.Background(), PartitionSpec{Topic: soloTopic})
		if err != nil {
			t.Fatal(err)
		}
		n := &solo{Shard: l.Shard, t: t}
		body := string(make([]byte, 32<<10))
		for range 20 {
			n.append(id, 1, body, nil)
		}
		c.converge(5 * time.Second)
		late := l.id%3 + 1
		c.isolate(late, true)
		for range 60 {
			n.append(id, 1, body, nil)
		}
		pause(5 * time.Second) // the leader notices
		offers := c.offers
		c.isolate(late, false)
		c.converge(30 * time.Second)
		if c.offers == offers || c.chunked == 0 {
			t.Fatalf("no snapshot: %d offers, %d batches", c.offers, c.chunked)
		}
		if c.chunked > 62 {
			t.Errorf("%d batches were sent, the follower lacked about 60 of 80", c.chunked)
		}
		st, _ := c.nodes[late].State(id)
		if st.End != 80 {
			t.Fatalf("late follower: %+v", st)
		}
		h := &history{t: t, seen: map[rhumb.Offset]uint32{}}
		for _, r := range c.nodes[1:] {
			h.watch(r, id)
			h.checkLog(r, id, st)
		}
		// Crash right after: what the snapshot brought is durable.
		c.crash(late)
		c.start(late)
		c.converge(10 * time.Second)
	})
}
