package shard

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// cluster is three replicas on three disks, and a network that loses, delays,
// repeats and reorders what they send.
type cluster struct {
	t     *testing.T
	mu    sync.Mutex // guards rng, cut and the counters
	rng   *rand.Rand
	nodes [4]*replica // by id, 0 unused

	loss   float64
	delay  time.Duration
	cut    map[[2]uint64]bool
	change func(*Config)

	chunked int // batches that went in snapshots
	offers  int
}

type replica struct {
	*Shard
	c      *cluster
	id     uint64
	disk   disk
	cancel context.CancelFunc
	up     bool
	dying  bool // its disk was taken away: it may end with an error
}

// disk is what a replica keeps over a crash.
type disk interface {
	storage() Storage
	synced() bool
	crash() disk // ends it as a power loss would, and gives what is left
	open(t *testing.T)
	close(t *testing.T)
}

func (d *memDisk) storage() Storage { return d }
func (d *memDisk) synced() bool     { return d.lazy == 0 }
func (d *memDisk) open(*testing.T)  {}
func (d *memDisk) close(*testing.T) {}

// storeDisk is the real store on a file system in memory.
type storeDisk struct {
	fs    *vfs.Mem
	seed  uint64
	store *storage.Store
	done  chan error
}

func (d *storeDisk) storage() Storage { return OnDisk(d.store.Shard(1)) }
func (d *storeDisk) synced() bool     { return true }

func (d *storeDisk) open(t *testing.T) {
	t.Helper()
	s, err := storage.Open(storage.Config{FS: d.fs, Dir: "data", Shards: 1, FileSize: 64 << 10, MinFree: -1, Reserve: -1,
		TailCache: 32 << 10, IndexCache: 64 << 10, StateMemTable: 256 << 10, StateCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d.store, d.done = s, make(chan error, 1)
	go func() { d.done <- s.Run(context.Background()) }()
}

func (d *storeDisk) crash() disk {
	d.seed++
	fs := d.fs.CrashClone(vfs.CrashOptions{Seed: d.seed})
	d.store.Kill()
	<-d.done
	return &storeDisk{fs: fs, seed: d.seed * 31}
}

func (d *storeDisk) close(t *testing.T) {
	if err := d.store.Close(); err != nil {
		t.Error(err)
	}
	<-d.done
}

const tick = 100 * time.Millisecond

func startCluster(t *testing.T, seed uint64, change func(*Config)) *cluster {
	return startClusterOn(t, seed, change, func(id uint64) disk {
		d := newMemDisk(seed*10 + id)
		d.latency = 3 * time.Millisecond
		return d
	})
}

func onStores(seed uint64) func(id uint64) disk {
	return func(id uint64) disk { return &storeDisk{fs: vfs.NewMem(vfs.MemConfig{}), seed: seed*10 + id} }
}

func startClusterOn(t *testing.T, seed uint64, change func(*Config), disks func(id uint64) disk) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 1)), delay: 2 * time.Millisecond, cut: map[[2]uint64]bool{}, change: change}
	for id := uint64(1); id <= 3; id++ {
		c.nodes[id] = &replica{c: c, id: id, disk: disks(id)}
		c.start(id)
	}
	t.Cleanup(c.stopAll)
	return c
}

func (c *cluster) start(id uint64) {
	c.t.Helper()
	n := c.nodes[id]
	n.disk.open(c.t)
	cfg := Config{ID: 1, Region: 7, Node: id, Voters: []uint64{1, 2, 3}, Storage: n.disk.storage(), Transport: n, Synced: n.disk.synced()}
	if c.change != nil {
		c.change(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	n.Shard, n.cancel, n.up, n.dying = s, cancel, true, false
	c.mu.Unlock()
	go func() {
		err := s.Run(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil && !n.dying {
			c.t.Errorf("replica %d: %v", id, err)
		}
	}()
	go func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.Tick()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (c *cluster) stop(id uint64) {
	if n := c.nodes[id]; n.up {
		c.mu.Lock()
		n.up = false
		c.mu.Unlock()
		n.cancel()
		<-n.Shard.done
		if !n.dying {
			n.disk.close(c.t)
		}
	}
}

func (c *cluster) stopAll() {
	for id := uint64(1); id <= 3; id++ {
		c.stop(id)
	}
}

// crash ends a replica as a power loss would.
func (c *cluster) crash(id uint64) {
	n := c.nodes[id]
	c.mu.Lock()
	n.dying = true
	c.mu.Unlock()
	disk := n.disk.crash()
	c.stop(id)
	n.disk = disk
}

// Send is the network.
func (n *replica) Send(m *Message) {
	c := n.c
	c.mu.Lock()
	if m.Kind == MessagePiece && m.Seq > 0 {
		c.chunked++ // the twin sends rows first, then a batch per piece
	}
	if m.Kind == MessageOffer {
		c.offers++
	}
	c.mu.Unlock()
	raw, err := m.Append(nil)
	if err != nil {
		c.t.Errorf("encode: %v", err)
		return
	}
	c.deliver(n.id, m.To, raw)
}

func (c *cluster) deliver(from, to uint64, raw []byte) {
	c.mu.Lock()
	wait := time.Duration(c.rng.Int64N(int64(c.delay) + 1))
	lost, again := c.rng.Float64() < c.loss, c.rng.Float64() < c.loss/2
	c.mu.Unlock()
	if again {
		c.deliver(from, to, raw)
	}
	if lost {
		return
	}
	time.AfterFunc(wait, func() {
		c.mu.Lock()
		target := c.nodes[to]
		deaf := !target.up || c.cut[[2]uint64{from, to}]
		c.mu.Unlock()
		if deaf {
			return
		}
		m, err := DecodeMessage(bytes.Clone(raw))
		if err != nil {
			c.t.Errorf("decode: %v", err)
			return
		}
		target.Receive(m)
	})
}

func (c *cluster) isolate(id uint64, off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := uint64(1); o <= 3; o++ {
		c.cut[[2]uint64{id, o}], c.cut[[2]uint64{o, id}] = off, off
	}
}

// leader waits for one, at most so long.
func (c *cluster) leader(within time.Duration) *replica {
	c.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); {
		var best *replica
		for _, n := range c.nodes[1:] {
			if n.up && n.Leading() && (best == nil || n.epoch.Load() > best.epoch.Load()) {
				best = n
			}
		}
		if best != nil {
			return best
		}
		pause(20 * time.Millisecond)
	}
	c.t.Fatalf("no leader within %v", within)
	return nil
}

// pause lets virtual time pass.
func pause(d time.Duration) { <-time.NewTimer(d).C }

// converge waits until all replicas that are up have applied the same entries,
// and compares their tables (I11).
func (c *cluster) converge(within time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(within); ; pause(50 * time.Millisecond) {
		synctest.Wait()
		dumps := map[uint64][]KV{}
		indexes := map[uint64]uint64{}
		same := true
		var first uint64
		for id, n := range c.nodes {
			if n == nil || !n.up {
				continue
			}
			rows, index, err := n.Rows(context.Background())
			if err != nil {
				c.t.Fatal(err)
			}
			if first == 0 {
				first = uint64(id)
			}
			dumps[uint64(id)], indexes[uint64(id)] = rows, index
			same = same && index == indexes[first]
		}
		if same {
			for id, rows := range dumps {
				compareRows(c.t, fmt.Sprint("replica ", first), dumps[first], fmt.Sprint("replica ", id), rows)
			}
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("replicas do not converge: applied %v", indexes)
		}
	}
}

func compareRows(t *testing.T, an string, a []KV, bn string, b []KV) {
	t.Helper()
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i].Key, b[i].Key) || !bytes.Equal(a[i].Value, b[i].Value) {
			get := func(l []KV) string {
				if i < len(l) {
					return fmt.Sprintf("%q = %x", l[i].Key, l[i].Value)
				}
				return "nothing"
			}
			t.Fatalf("I11: row %d: %s has %s, %s has %s", i, an, get(a), bn, get(b))
		}
	}
}

func TestElectReplicateAndLoseTheLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		l := c.leader(10 * time.Second)
		id, _, err := l.CreatePartition(context.Background(), PartitionSpec{Topic: soloTopic})
		if err != nil {
			t.Fatal(err)
		}
		n := &solo{Shard: l.Shard, t: t}
		for i := range 20 {
			if r := n.append(id, 1, fmt.Sprint(i), nil); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.converge(5 * time.Second)
		c.crash(l.id)
		l2 := c.leader(10 * time.Second)
		if l2.id == l.id {
			t.Fatal("a crashed leader leads")
		}
		n = &solo{Shard: l2.Shard, t: t}
		if r := n.append(id, 1, "after", nil); r.Err != nil || r.Base != 20 {
			t.Fatalf("append to the new leader: %+v", r)
		}
		c.start(l.id)
		c.converge(10 * time.Second)
	})
}
