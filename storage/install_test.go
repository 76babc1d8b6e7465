package storage

import (
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// pair is a leader whose shard 1 has applied 300 entries, and a follower that has
// saved and applied the first ones.
type pair struct {
	leader, follower *node
	fs               *vfs.Mem // the follower's
	d                *driver
	entries          []*raftpb.Entry
	updates          []*Update
}

func newPair(t *testing.T, applied int) *pair {
	p := &pair{fs: vfs.NewMem(vfs.MemConfig{})}
	p.leader, p.follower = start(t, testConfig(vfs.NewMem(vfs.MemConfig{}))), start(t, testConfig(p.fs))
	p.d = newDriver(t, p.leader.store.Shard(1))
	for i := range 300 {
		e, u := p.d.entry(600, 7)
		p.entries, p.updates = append(p.entries, e), append(p.updates, u)
		p.d.save(e)
		if err := p.d.sh.Apply(u); err != nil {
			t.Fatal(err)
		}
		if i < applied {
			p.follow(t, i)
		}
	}
	return p
}

// follow lets the follower save and apply entry i+1.
func (p *pair) follow(t *testing.T, i int) {
	t.Helper()
	sh := p.follower.store.Shard(1)
	(&driver{t: t, sh: sh, term: 1}).save(p.entries[i])
	if err := sh.Apply(p.updates[i]); err != nil {
		t.Fatal(err)
	}
}

// roll writes entries of another shard of the follower until n files are closed.
func (p *pair) roll(t *testing.T, n int) {
	d := newDriver(t, p.follower.store.Shard(2))
	rest, _ := d.sh.view(9) // what a crash left
	d.next[9] = rest.End
	newest := p.follower.store.files.newest.Load()
	for p.follower.store.files.newest.Load() < newest+uint64(n) {
		d.produce(6000, 9)
	}
}

func (p *pair) compare(t *testing.T) {
	t.Helper()
	sameShard(t, p.leader.store.Shard(1), p.follower.store.Shard(1), map[rhumb.PartitionID]rhumb.Offset{7: p.d.next[7]})
}

// TestI1NothingIsCopiedBehindASnapshot lets files wait for a shard that does not
// apply because a snapshot is about to take the place of its entries: a copy of
// them behind the snapshot would stand for entries that it cancelled.
func TestI1NothingIsCopiedBehindASnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPair(t, 20)
		defer p.leader.close()
		sh := p.follower.store.Shard(1)
		for i := 20; i < 40; i++ {
			(&driver{t: t, sh: sh, term: 1}).save(p.entries[i]) // not applied
		}
		in, _ := sendSnapshot(t, p.leader.store.Shard(1), sh, 20)
		commitInstall(t, in, 5)
		p.roll(t, 8) // more than wait for a stuck shard
		synctest.Wait()
		clone := p.fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
		if err := in.Finish(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p.follower.store.files.settledThrough() == 0 {
			t.Error("no file settled after the installation")
		}
		p.compare(t)
		p.follower.close()
		for _, fs := range []*vfs.Mem{clone, p.fs} {
			p.follower = start(t, testConfig(fs))
			p.compare(t)
			p.follower.close()
		}
	})
}

// TestI1AppliedDuringAnInstallation lets a follower catch up by itself, in part,
// while the pieces of a snapshot are there already. What it applied then lies
// behind the pieces in the log; files settle in the order of the log.
func TestI1AppliedDuringAnInstallation(t *testing.T) {
	for _, crash := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			p := newPair(t, 100)
			defer p.leader.close()
			sh := p.follower.store.Shard(1)
			in, _ := sendSnapshot(t, p.leader.store.Shard(1), sh, 100)
			p.roll(t, 1)
			for i := 100; i < 150; i++ {
				p.follow(t, i)
			}
			p.roll(t, 1)
			commitInstall(t, in, 5)
			if crash {
				p.fs = p.fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
				p.follower.kill()
				p.follower = start(t, testConfig(p.fs))
			} else if err := in.Finish(); err != nil {
				t.Fatal(err)
			}
			p.compare(t)
			p.roll(t, 4)
			synctest.Wait()
			p.compare(t)
			if dense := bytesOfDense(p.follower.store.Shard(1), 7); dense > 0 {
				t.Errorf("%d bytes have not settled", dense)
			}
			p.follower.close()
			p.follower = start(t, testConfig(p.fs))
			p.compare(t)
			p.follower.close()
		})
	}
}

// bytesOfDense is what a partition has in files that have not settled.
func bytesOfDense(sh *Shard, p rhumb.PartitionID) (n int) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	_, refs, _ := sh.parts[p].Unsettled(nil, func(*index.Ref) bool { return true })
	for i := range refs {
		n += int(refs[i].Size)
	}
	return n
}
