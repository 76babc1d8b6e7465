package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// sendSnapshot stages a snapshot of from at to, and leaves it uncommitted.
func sendSnapshot(t *testing.T, from, to *Shard, after uint64) (*Install, *raftpb.SnapshotMetadata) {
	t.Helper()
	r, err := from.OpenSnapshot(after)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in, err := to.BeginInstall(r.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	for {
		piece, err := r.Next()
		if errors.Is(err, io.EOF) {
			return in, r.Metadata()
		}
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		if err := in.Add(piece, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func commitInstall(t *testing.T, in *Install, term uint64) {
	t.Helper()
	done := make(chan error, 1)
	in.Commit(&raftpb.HardState{Term: new(term), Vote: new(uint64(0)), Commit: new(in.meta.GetIndex())}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func tablesOf(t *testing.T, sh *Shard) map[string]string {
	t.Helper()
	m := map[string]string{}
	if err := sh.Tables(func(k, v []byte) error { m[string(k)] = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return m
}

// sameShard compares what a follower has with the leader's.
func sameShard(t *testing.T, want, got *Shard, ends map[rhumb.PartitionID]rhumb.Offset) {
	t.Helper()
	if w, g := tablesOf(t, want), tablesOf(t, got); !maps.Equal(w, g) {
		t.Errorf("tables: got %v, want %v", g, w)
	}
	for p, end := range ends {
		start := want.LogStart(p)
		if got.LogStart(p) != start {
			t.Errorf("partition %d: log start %d, want %d", p, got.LogStart(p), start)
		}
		a, b := readAll(t, want, p, start, end, 4000), readAll(t, got, p, start, end, 1<<20)
		if len(a) != len(b) {
			t.Fatalf("partition %d: %d batches, want %d", p, len(b), len(a))
		}
		for i := range a {
			if a[i].Base != b[i].Base || string(a[i].Batch) != string(b[i].Batch) {
				t.Fatalf("partition %d: batch %d differs at %d", p, i, a[i].Base)
			}
		}
	}
}

func TestSnapshotFillsUpALateFollower(t *testing.T) {
	for _, have := range []int{0, 100} { // entries that the follower has already
		for _, crash := range []string{"no", "before commit", "after commit"} {
			t.Run(fmt.Sprintf("has %d, crash %s", have, crash), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { snapshotCase(t, have, crash) })
			})
		}
	}
}

func snapshotCase(t *testing.T, have int, crash string) {
	leaderFS, followerFS := vfs.NewMem(vfs.MemConfig{}), vfs.NewMem(vfs.MemConfig{})
	leader, follower := start(t, testConfig(leaderFS)), start(t, testConfig(followerFS))
	defer leader.close()
	defer func() { follower.close() }()
	ls, fs := leader.store.Shard(1), follower.store.Shard(1)
	d := newDriver(t, ls)
	for i := range 900 {
		e, u := d.entry(200, 7, rhumb.PartitionID(10+i%3))
		u.Sets = []KV{{Key: fmt.Appendf(nil, "k%d", i%50), Value: fmt.Appendf(nil, "v%d", i)}}
		targets := []*Shard{ls}
		if i < have {
			targets = append(targets, fs)
		}
		for _, sh := range targets {
			(&driver{t: t, sh: sh, term: 1}).save(e)
			if err := sh.Apply(u); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.update(&Update{LogStarts: []LogStart{{Partition: 11, Start: 40}}, Drops: []rhumb.PartitionID{12}})
	delete(d.next, 12)
	applied, _ := fs.Applied()
	in, meta := sendSnapshot(t, ls, fs, applied)
	if crash != "before commit" {
		commitInstall(t, in, 5)
	}
	if crash != "no" {
		followerFS = followerFS.CrashClone(vfs.CrashOptions{Seed: 7})
		follower.kill()
		follower = start(t, testConfig(followerFS))
		fs = follower.store.Shard(1)
	} else if err := in.Finish(); err != nil {
		t.Fatal(err)
	}
	if crash == "before commit" {
		if now, _ := fs.Applied(); now > applied {
			t.Fatalf("applied %d: a snapshot that was not committed counts", now)
		}
		in, meta = sendSnapshot(t, ls, fs, 0)
		commitInstall(t, in, 5)
		if err := in.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if index, term := fs.Applied(); index != meta.GetIndex() || term != 1 {
		t.Errorf("applied %d of term %d, want %d of term 1", index, term, meta.GetIndex())
	}
	if last, _ := fs.LastIndex(); last != meta.GetIndex() {
		t.Errorf("last index %d, want %d", last, meta.GetIndex())
	}
	if term, err := fs.Term(meta.GetIndex()); term != 1 || err != nil {
		t.Errorf("term %d, %v", term, err)
	}
	sameShard(t, ls, fs, d.next)
	goOn(t, d, ls, fs)
	synctest.Wait()
	if follower.store.files.settledThrough() == 0 {
		t.Error("no file of the follower settled")
	}
	follower.close()
	follower = start(t, testConfig(followerFS))
	sameShard(t, ls, follower.store.Shard(1), d.next)
}

// goOn lets both replicas apply the same entries, enough for files to settle.
func goOn(t *testing.T, d *driver, shards ...*Shard) {
	t.Helper()
	for range 400 {
		e, u := d.entry(200, 7, 10)
		for _, sh := range shards {
			(&driver{t: t, sh: sh, term: 1}).save(e)
			if err := sh.Apply(u); err != nil {
				t.Fatal(err)
			}
		}
	}
}
