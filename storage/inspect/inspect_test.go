package inspect

import (
	"context"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// fill makes a data directory with several log files, of which all but the last
// have settled, and stops cleanly.
func fill(t *testing.T) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem(vfs.MemConfig{})
	fillDisk(t, fs, 0)
	return fs
}

// fillDisk does what fill does, and lets every other entry move the log start so that
// as many records stay, if keep is not 0: files are deleted, and used again.
func fillDisk(t *testing.T, fs *vfs.Mem, keep rhumb.Offset) {
	t.Helper()
	s, err := storage.Open(storage.Config{FS: fs, Dir: "data", Shards: 1, FileSize: 64 << 10, MinFree: -1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	sh := s.Shard(1)
	for i := uint64(1); i <= 100; i++ {
		batch := make([]byte, codec.BatchHeaderSize+2000)
		binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
		batch[16] = 2
		binary.BigEndian.PutUint32(batch[17:], codec.Checksum(batch[21:]))
		base := rhumb.Offset(i - 1)
		codec.PatchBatch(batch, base, 1)
		e := codec.Envelope{Region: 1, Partition: 5, First: base, Last: base, Prev: base - 1, AppendTime: 1, Count: 1}
		data := make([]byte, codec.EnvelopeSize, codec.EnvelopeSize+len(batch))
		e.Put(data, batch)
		data = append(data, batch...)
		done := make(chan error, 1)
		sh.Save(&raftpb.HardState{Term: new(uint64(1)), Vote: new(uint64(1)), Commit: new(i - 1)},
			[]*raftpb.Entry{{Index: new(i), Term: new(uint64(1)), Data: data}}, true, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		u := &storage.Update{Index: i, Term: 1, Batches: []storage.BatchRef{
			{Partition: 5, Index: i, Envelope: e, Base: base, MaxTimestamp: 1, Bytes: data}}}
		if keep > 0 && i%2 == 0 && base > keep {
			u.LogStarts = []storage.LogStart{{Partition: 5, Start: base - keep}}
		}
		if err := sh.Apply(u); err != nil {
			t.Fatal(err)
		}
		if keep > 0 {
			synctest.Wait()
		}
	}
	// One more, which is not applied: nobody was promised it.
	done := make(chan error, 1)
	sh.Save(nil, []*raftpb.Entry{{Index: new(uint64(101)), Term: new(uint64(1)), Data: make([]byte, 2000)}}, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, fs *vfs.Mem, name string, pos int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, pos); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	b[0] ^= 0x55
	if _, err := f.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
}

func first(t *testing.T, fs *vfs.Mem, folder, suffix string) string {
	t.Helper()
	names, err := fs.List(filepath.Join("data", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			return filepath.Join("data", folder, n)
		}
	}
	t.Fatalf("no %s in %s", suffix, folder)
	return ""
}

func TestVerifySoundDirectory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := fill(t)
		var out strings.Builder
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind.Changes() && op.Kind != vfs.OpOpen || op.Kind == vfs.OpLock {
				t.Errorf("%s of %s: inspecting changes nothing", op.Kind, op.Name)
			}
			return nil
		})
		r, err := Verify(&out, fs, "data")
		if err != nil || r.Verdict() != Sound || len(r.Problems) > 0 {
			t.Fatalf("%v, %d:\n%s", err, r.Verdict(), &out)
		}
		if r.Logs < 3 || r.Indexes != r.Logs-1 || r.Batches < 50 || r.Frames < 100 {
			t.Errorf("report %+v", r)
		}
		out.Reset()
		if r, err = Dump(&out, fs, "data"); err != nil || r.Verdict() != Sound {
			t.Fatal(err)
		}
		for _, want := range []string{"checkpoint of", "entry 37 term 1", "partition 5: offsets", "block of shard 1"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in the dump", want)
			}
		}
	})
}

func TestVerifyNamesFileAndPlaceOfDamage(t *testing.T) {
	for _, c := range []struct{ folder, suffix, say string }{
		{"log", ".log", "log/0000000000000001.log: damaged at"},
		{"index", ".idx", "index/0000000000000001.idx: damaged"},
	} {
		bubble.Test(t, func(t *testing.T) {
			fs := fill(t)
			flip(t, fs, first(t, fs, c.folder, c.suffix), 3000-2900*int64(len(c.folder)/5)) // in the frames, in the blocks
			var out strings.Builder
			r, err := Verify(&out, fs, "data")
			if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), c.say) {
				t.Errorf("%v, verdict %d:\n%s", err, r.Verdict(), &out)
			}
		})
	}
}

func TestVerifyTornTailIsNoDamage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := fill(t)
		names, err := fs.List("data/log")
		if err != nil {
			t.Fatal(err)
		}
		var last string
		for _, n := range names {
			if strings.HasSuffix(n, ".log") {
				last = filepath.Join("data/log", n)
			}
		}
		r, err := Verify(io.Discard, fs, "data")
		if err != nil {
			t.Fatal(err)
		}
		frames := r.Frames
		// The last frame, which no flushed mark covers: cut it in the middle.
		info, err := fs.Stat(last)
		if err != nil {
			t.Fatal(err)
		}
		for pos := info.Size - 1; pos > 0; pos -= 1000 {
			clone := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
			flip(t, clone, last, pos)
			r, err := Verify(io.Discard, clone, "data")
			if err != nil {
				t.Fatal(err)
			}
			if r.Frames == frames {
				continue // behind the last frame
			}
			if r.Verdict() != Sound || len(r.Problems) != 1 || !r.Problems[0].Torn {
				t.Errorf("flipped %d: %+v", pos, r.Problems)
			}
			return
		}
		t.Error("no frame was hit")
	})
}

// TestVerifyAfterAnyCrash looks at what crashes leave, also files that are prepared, or
// half-way used again: nothing of it is damage.
func TestVerifyAfterAnyCrash(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		var mu sync.Mutex
		var clones []*vfs.Mem
		ops := uint64(0)
		fs.SetHook(func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.Changes() {
				if ops++; ops%2 == 0 {
					clones = append(clones, fs.CrashClone(vfs.CrashOptions{Seed: ops}))
				}
			}
			return nil
		})
		fillDisk(t, fs, 30)
		torn := 0
		for i, clone := range clones {
			if _, err := clone.Stat("data/FORMAT"); err != nil {
				continue
			}
			var out strings.Builder
			r, err := Verify(&out, clone, "data")
			if err != nil || r.Verdict() != Sound {
				t.Fatalf("clone %d: %v, %d:\n%s", i, err, r.Verdict(), &out)
			}
			torn += len(r.Problems)
		}
		if names, _ := fs.List("data/log"); len(clones) < 100 || torn == 0 || names[0] < "0000000000000002" {
			t.Errorf("%d clones, %d torn, %v", len(clones), torn, names)
		}
	})
}

func TestVerifyWithoutDirectory(t *testing.T) {
	r, err := Verify(io.Discard, vfs.NewMem(vfs.MemConfig{}), "nowhere")
	if err != nil || r.Verdict() != Unreadable || r.Err() == nil {
		t.Errorf("%v, verdict %d", err, r.Verdict())
	}
}

// TestVerifyReportsLostNewest: the file that names the newest log file is missing, of
// which nothing else tells.
func TestVerifyReportsLostNewest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := fill(t)
		if err := fs.Remove("data/log/NEWEST"); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		r, err := Verify(&out, fs, "data")
		if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), "log/NEWEST: damaged: missing") || !strings.Contains(out.String(), "1 problems") {
			t.Errorf("%v, verdict %d:\n%s", err, r.Verdict(), &out)
		}
	})
}
