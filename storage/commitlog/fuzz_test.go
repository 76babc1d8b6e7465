package commitlog

import (
	"bytes"
	"os"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// FuzzFrame decodes anything as a frame. What decodes is encoded again and must come
// out the same.
func FuzzFrame(f *testing.F) {
	const seed, pos = 77, 4096
	for _, fr := range goldenFrames() {
		var e encoded
		if err := e.encode(fr, fr.Conf); err != nil {
			f.Fatal(err)
		}
		b := make([]byte, frameHeaderSize)
		e.put(b, seed, pos)
		b = append(b, e.head...)
		f.Add(append(b, bytes.Join(e.data, nil)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFrameHeader(b, seed, pos)
		if err != nil || h.size > int64(len(b)) {
			return
		}
		fr, locs, err := decodeBody(&h, b[h.headerLen:h.size], 1, pos)
		if err != nil || h.kind == KindCheckpoint || h.headerLen != frameHeaderSize {
			return
		}
		for i, loc := range locs {
			at := loc.Pos - pos
			if !bytes.Equal(b[at:at+int64(loc.Len)], fr.Entries[i].GetData()) {
				t.Fatalf("location %v does not lead to entry %d", loc, i)
			}
		}
		var e encoded
		if err := e.encode(fr, fr.Conf); err != nil {
			t.Fatal(err)
		}
		if e.size != h.size-int64(h.extraLen-len(fr.Conf)) {
			t.Fatalf("encoded again: %d bytes, had %d", e.size, h.size)
		}
	})
}

// FuzzCheckpoint decodes anything as the shards of a checkpoint.
func FuzzCheckpoint(f *testing.F) {
	f.Add(appendCheckpoint(nil, nil))
	f.Add(appendCheckpoint(nil, []ShardState{{Shard: 1, Term: 2}, {Shard: 3, Last: 5, Conf: []byte("conf")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeCheckpoint(b)
		if err != nil {
			return
		}
		again, err := decodeCheckpoint(appendCheckpoint(nil, list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d shards became %d: %v", len(list), len(again), err)
		}
	})
}

// FuzzOpen opens anything as a log of one file: it may be refused or cut, and what
// is then replayed must be all intact.
func FuzzOpen(f *testing.F) {
	golden, err := os.ReadFile(goldenName)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	second := framesStart + bytes.Index(golden[framesStart:], []byte(fileMagic))
	f.Add(golden[:second])
	f.Add(golden[:second-20])
	f.Add(append(bytes.Clone(golden[:second]), golden[framesStart:second]...))
	f.Add(append(make([]byte, framesStart), golden[framesStart:second]...)) // no header
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem(vfs.MemConfig{})
		if err := fs.MkdirAll("log"); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Create(firstFile)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		_, _ = ScanFile(fs, firstFile, func(int64, *Frame, []Location) error { return nil })
		l, rep, err := Open(Config{FS: fs, Dir: "log"})
		if err != nil {
			return
		}
		defer l.Close()
		if err := l.Replay(0, func(*Frame, []Location) error { return nil }); err != nil {
			t.Fatalf("opened with %+v, but: %v", rep, err)
		}
	})
}
