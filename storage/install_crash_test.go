package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// filling is a history in which a late follower is filled up by a snapshot: it
// has some entries, saves and applies more while pieces come, gives up now and then,
// and goes on after the snapshot, while another shard's entries roll the files.
type filling struct {
	t        *testing.T
	rng      *rand.Rand
	leader   *Shard
	entries  map[uint64]*raftpb.Entry
	snapshot uint64 // its index
	end      uint64 // last entry

	node *node
	sh   *Shard
	roll *driver // of shard 2

	mu        sync.Mutex // what follows is read by the hook
	committed bool       // the snapshot
	applied   uint64
	moments   []fillMoment
}

type fillMoment struct {
	fs        *vfs.Mem
	op        vfs.Op
	committed bool
	applied   uint64
}

// newFilling makes the leader's entries.
func newFilling(t *testing.T, seed uint64) *filling {
	f := &filling{t: t, rng: rand.New(rand.NewPCG(seed, 7)), snapshot: 150, end: 190}
	h := &history{entries: [2]map[uint64]*raftpb.Entry{{}, {}}, made: promise{starts: map[rhumb.PartitionRef]rhumb.Offset{}}}
	n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
	t.Cleanup(n.kill)
	f.leader, f.entries = n.store.Shard(1), h.entries[0]
	p := &player{t: t, h: h, sh: f.leader, rng: f.rng, term: 1, place: place{next: map[rhumb.PartitionID]rhumb.Offset{}, first: 1}}
	for p.index < f.end {
		e := p.entry()
		f.entries[p.index] = e
		if p.index > f.snapshot {
			continue
		}
		if err := p.save([]*raftpb.Entry{e}); err != nil {
			t.Fatal(err)
		}
		if err := p.apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// use makes the follower a store.
func (f *filling) use(n *node) {
	f.node, f.sh, f.roll = n, n.store.Shard(1), newDriver(f.t, n.store.Shard(2))
	rest, _ := f.roll.sh.view(9) // what was saved and not applied is left out
	f.roll.next[9] = rest.End
}

// save lets the follower save entries up to index.
func (f *filling) save(index uint64) {
	f.t.Helper()
	for last, _ := f.sh.LastIndex(); last < index; {
		last++
		(&driver{t: f.t, sh: f.sh, term: 1}).save(f.entries[last])
	}
}

// apply lets it save and apply them.
func (f *filling) apply(index uint64) {
	f.t.Helper()
	f.save(index)
	for applied, _ := f.sh.Applied(); applied < index; {
		applied++
		if err := f.sh.Apply(decodeEntry(f.entries[applied])); err != nil {
			f.t.Fatal(err)
		}
		f.mu.Lock()
		f.applied = applied
		f.mu.Unlock()
	}
}

// files fills a few files with the other shard's entries.
func (f *filling) files(n int) {
	for range n * 10 {
		f.roll.produce(6000, 9)
	}
	synctest.Wait()
}

func (f *filling) play() {
	last := uint64(f.rng.IntN(100))
	f.apply(last)
	for done := false; !done; {
		after, _ := f.sh.Applied()
		f.save(after + uint64(f.rng.IntN(10)))
		in, _ := sendSnapshot(f.t, f.leader, f.sh, after)
		f.files(f.rng.IntN(3))
		if f.rng.IntN(2) == 0 {
			f.apply(after + uint64(f.rng.IntN(15)))
			f.files(f.rng.IntN(3))
		}
		if f.rng.IntN(4) == 0 {
			in.Abort()
			continue
		}
		done = true
		commitInstall(f.t, in, 1)
		f.mu.Lock()
		f.committed = true
		f.mu.Unlock()
		f.files(f.rng.IntN(7)) // a stuck shard, and nothing must be copied
		if err := in.Finish(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.files(f.rng.IntN(3))
	f.apply(f.end - 10)
	f.files(3)
}

// hook takes a clone before each operation.
func (f *filling) hook(fs *vfs.Mem, seed uint64) func(op vfs.Op) error {
	return func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		m := fillMoment{op: op, committed: f.committed, applied: f.applied}
		n := uint64(len(f.moments))
		m.fs = fs.CrashClone(vfs.CrashOptions{Seed: seed<<32 | n, Unsynced: vfs.Unsynced(n % 3)})
		f.moments = append(f.moments, m)
		return nil
	}
}

// check reopens what a crash left, lets the follower go on to the end, in one way or
// another, and compares.
func (f *filling) check(m fillMoment, i int) {
	how := ways[i/2%2]
	f.use(start(f.t, crashConfig(m.fs, how)))
	running := f.node
	defer func() {
		if f.t.Failed() {
			running.kill()
		}
	}()
	applied, _ := f.sh.Applied()
	last, _ := f.sh.LastIndex()
	if m.committed && applied < f.snapshot {
		f.t.Fatalf("I1: applied %d, but the snapshot at %d was committed", applied, f.snapshot)
	}
	// One more may have been applied than was noted, also right after the installation.
	if applied > max(m.applied, f.snapshot)+1 || last < m.applied {
		f.t.Fatalf("applied %d, last %d; it was %d, the snapshot is at %d", applied, last, m.applied, f.snapshot)
	}
	compareModel(f.t, f.sh, modelOf(f.entries, applied))
	if applied < f.snapshot && i%2 == 0 {
		in, _ := sendSnapshot(f.t, f.leader, f.sh, applied)
		commitInstall(f.t, in, 1)
		if err := in.Finish(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.apply(f.end)
	compareModel(f.t, f.sh, modelOf(f.entries, f.end))
	f.files(3)
	compareModel(f.t, f.sh, modelOf(f.entries, f.end))
	f.node.close()
	f.use(start(f.t, crashConfig(m.fs, how.other())))
	defer f.node.close()
	compareModel(f.t, f.sh, modelOf(f.entries, f.end))
}

func TestI1I2CrashAtEveryOperationOfAnInstallation(t *testing.T) {
	for _, seed := range crashSeeds(t, 1) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { crashInstallation(t, seed) })
		})
	}
}

func crashInstallation(t *testing.T, seed uint64) {
	f := newFilling(t, seed)
	fs := vfs.NewMem(vfs.MemConfig{})
	fs.SetHook(f.hook(fs, seed))
	f.use(start(t, crashConfig(fs, ways[seed%2])))
	f.play()
	f.node.close()
	step := crashStep(ways[1]) // few of these cases are new ones
	if testing.Short() {
		step *= 5
	}
	for i := int(seed) % step; i < len(f.moments); i += step {
		m := f.moments[i]
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("after a crash before operation %d, %s %s", i, m.op.Kind, m.op.Name)
				}
			}()
			f.check(m, i)
		}()
	}
}
