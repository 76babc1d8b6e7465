package commitlog

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

var update = flag.Bool("update", false, "write the golden files: only for a format that has no released version")

// goldenFrames uses each field of each kind.
func goldenFrames() []*Frame {
	conf := entries(9, 4, "conf")
	conf[0].Type = conf[0].Type.Enum()
	*conf[0].Type = 2
	return []*Frame{
		{Kind: KindEntries, Shard: 1, HardState: hardState(4, 2, 8), Entries: append(entries(7, 3, "seven", ""), conf...)},
		{Kind: KindEntries, Shard: 0xfffffffe, HardState: hardState(1<<63, 1<<62, 1<<61)},
		{Kind: KindSnapshotData, Shard: 2, Entries: entries(20, 5, "piece one", "piece two")},
		{Kind: KindSnapshot, Shard: 2, HardState: hardState(5, 0, 20), Conf: []byte("members"), Entries: entries(20, 5, "tables")},
	}
}

func goldenLog(t *testing.T) []byte {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, newSalt: func() (s salt) { copy(s[:], "0123456789abcdef"); return s }}
	l := start(t, cfg)
	for _, f := range goldenFrames() {
		l.save(f)
	}
	l.stopped()
	// The next file: its checkpoint has something to carry.
	l = start(t, cfg)
	l.CompactTo(1, 5, 3)
	l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(10, 4, "ten")})
	l.stopped()
	openLog(t, cfg) // shortens the files to what is in them
	var all []byte
	for _, info := range l.Files() {
		f, err := fs.Open(l.files.path(info.ID))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Bytes)
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

const goldenName = "testdata/v1.log"

// TestGoldenBytes writes both files of the golden log again: header, frames of each
// kind, checkpoint.
func TestGoldenBytes(t *testing.T) {
	got := goldenLog(t)
	if *update {
		if err := os.WriteFile(goldenName, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenName)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("format changed at byte %d of %d", i, len(want))
			}
		}
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
}

// TestGoldenOpens reads the golden log as a data directory of version 1.
func TestGoldenOpens(t *testing.T) {
	b, err := os.ReadFile(goldenName)
	if err != nil {
		t.Fatal(err)
	}
	second := framesStart + bytes.Index(b[framesStart:], []byte(fileMagic))
	fs := vfs.NewMem(vfs.MemConfig{})
	if err := fs.MkdirAll("log"); err != nil {
		t.Fatal(err)
	}
	for i, part := range [][]byte{b[:second], b[second:]} {
		f, err := fs.Create(fmt.Sprintf("log/%016x.log", i+1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(part, 0); err != nil {
			t.Fatal(err)
		}
	}
	l, rep := openLog(t, Config{FS: fs})
	defer l.Close()
	if rep.CutBytes != 0 || rep.Files != 2 {
		t.Fatalf("report %+v", rep)
	}
	frames := append(goldenFrames(), &Frame{Kind: KindEntries, Shard: 1, Entries: entries(10, 4, "ten")})
	var m model
	err = l.Replay(0, func(f *Frame, locs []Location) error {
		if f.Kind == KindCheckpoint {
			return nil
		}
		want := frames[0]
		frames = frames[1:]
		return m.same(want, f)
	})
	if err != nil || len(frames) != 0 {
		t.Fatalf("%d frames are missing, %v", len(frames), err)
	}
	want := "[{1 4 2 8 5 3 10 4 []} {2 5 0 20 20 5 20 5 [109 101 109 98 101 114 115]} " +
		"{4294967294 9223372036854775808 4611686018427387904 2305843009213693952 0 0 0 0 []}]"
	if got := fmt.Sprint(l.Shards()); got != want {
		t.Fatalf("shards %s, want %s", got, want)
	}
}
