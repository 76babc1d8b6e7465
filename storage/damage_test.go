package storage

import (
	"bytes"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestBadPlaceHidesNothingElse: of a settled file one byte has changed on the disk, or a
// part of it cannot be read, or is not there any more. Only the batch there cannot be read, whether the store
// was open or is opened again, and the store says which file it is.
func TestBadPlaceHidesNothingElse(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%v", direct), func(t *testing.T) { testBadPlace(t, direct) })
	}
}

func testBadPlace(t *testing.T, direct bool) {
	for name, spoil := range map[string]func(t *testing.T, fs *vfs.Mem, file string, at int64){
		"a byte": spoilByte,
		"a sector": func(_ *testing.T, fs *vfs.Mem, file string, at int64) {
			fs.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && op.Name == "data/"+file && op.Off <= at && at < op.Off+op.Len {
					return syscall.EIO
				}
				return nil
			})
		},
		"the end": func(_ *testing.T, fs *vfs.Mem, file string, at int64) {
			fs.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && op.Name == "data/"+file && op.Off <= at && at < op.Off+op.Len {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				fs := vfs.NewMem(vfs.MemConfig{})
				cfg := testConfig(fs)
				n := start(t, cfg)
				d := newDriver(t, n.store.Shard(1))
				for range 400 {
					d.produce(300, 1)
				}
				synctest.Wait()
				n.close() // so that nothing is in memory
				cfg.Direct = direct
				n = start(t, cfg)
				defer func() { n.close() }()
				sh := n.store.Shard(1)
				end := d.next[1]
				all := readAll(t, sh, 1, 0, end, 1<<20)
				bad := all[100]
				files, err := fs.List("data/log")
				if err != nil || len(files) < 2 {
					t.Fatalf("files %q, %v", files, err)
				}
				file := "log/" + files[0]
				spoil(t, fs, file, int64(find(t, fs, "data/"+file, bad.Batch))+100)
				if direct {
					forgetBlocks(n.store) // what is in memory is good
				}
				for range 2 {
					got, err := sh.Read(Query{Partition: 1, Limit: end, MaxBytes: 1 << 20})
					if err != nil || len(got) != 100 || got[99].Last() != bad.Base-1 {
						t.Fatalf("%d batches, %v", len(got), err)
					}
					if got, err = sh.ReadOrigin(OriginQuery{Partition: 1, Region: 1, Life: ownLife, From: 7, Limit: end, MaxBytes: 1 << 20}); err != nil || got[len(got)-1].Last() != bad.Base-1 {
						t.Fatalf("of the origin: %d batches, %v", len(got), err)
					}
					if got, err := sh.Read(Query{Partition: 1, From: bad.Base, Limit: end, MaxBytes: 1 << 20}); rhumb.KindOf(err) != rhumb.KindCorrupt {
						t.Fatalf("the bad one: %d batches, %v", len(got), err)
					}
					readAll(t, sh, 1, bad.Last()+1, end, 1<<20)
					if d := n.store.Health().Damaged; len(d) != 1 || d[0].File != file || d[0].Offset != bad.Base || d[0].Partition != 1 {
						t.Errorf("damage %+v", d)
					}
					n.close()
					n = start(t, cfg)
					sh = n.store.Shard(1)
				}
			})
		})
	}
}

// spoilByte changes a byte of a file in the data directory.
func spoilByte(t *testing.T, fs *vfs.Mem, file string, at int64) {
	f, err := fs.OpenReadWrite("data/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b[0] ^ 1}, at); err != nil {
		t.Fatal(err)
	}
}

func forgetBlocks(s *Store) {
	for _, f := range s.log.Files() {
		s.blocks.Forget(f.ID)
	}
}

// find gives where a batch lies in a file.
func find(t *testing.T, fs *vfs.Mem, name string, batch []byte) int {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, batch)
	if at < 0 {
		t.Fatalf("%s has no such batch", name)
	}
	return at
}
