package storage

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s: the format has changed", name)
	}
}

func sampleFormat() format {
	f := format{version: 1, minReader: 1, shards: 16}
	for i := range f.data {
		f.data[i], f.mesh[i] = byte(i), byte(0x80+i)
	}
	return f
}

func TestGoldenFormat(t *testing.T) {
	f := sampleFormat()
	golden(t, "FORMAT", f.encode())
	if got, err := parseFormat(f.encode()); got != f || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzFormat(f *testing.F) {
	s := sampleFormat()
	f.Add(s.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseFormat(b); err == nil && !bytes.Equal(got.encode()[:10], b[:10]) {
			t.Fatal("format differs when written again")
		}
	})
}

func samplePiece() []byte {
	_, b := makeBatch(7, 5, 2, 20, 1)
	w := &pieceWriter{number: 3}
	w.partition(7, 5, 0)
	w.pair([]byte("key"), []byte("value"))
	w.batch(7, 11, 1700000000000, b)
	return w.finish()
}

func TestGoldenSnapshotPiece(t *testing.T) {
	b := samplePiece()
	golden(t, "piece.bin", b)
	var items []item
	number, err := parsePiece(b, func(it *item) error { items = append(items, *it); return nil })
	if number != 3 || err != nil || len(items) != 3 {
		t.Fatalf("number %d, %d items, %v", number, len(items), err)
	}
	if it := items[2]; it.raft != 11 || it.base != 5 || !bytes.Equal(it.bytes, b[it.at:it.at+len(it.bytes)]) {
		t.Errorf("batch %+v", it)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x20
		n, err := parsePiece(damaged, func(*item) error { return nil })
		if err == nil && n == 3 && i != 1 { // a later version alone changes nothing
			t.Errorf("byte %d may be anything", i)
		}
	}
}

// TestPieceOfACompactedPartition: holes come with a flag that readers which know
// nothing of them refuse.
func TestPieceOfACompactedPartition(t *testing.T) {
	w := &pieceWriter{}
	w.partition(7, 5, 90)
	b := w.finish()
	var got item
	if _, err := parsePiece(b, func(it *item) error { got = *it; return nil }); err != nil || got.start != 5 || got.holes != 90 {
		t.Errorf("read as %+v, %v", got, err)
	}
	b[pieceHeaderSize+1] = 2
	binary.LittleEndian.PutUint32(b[12:], codec.Checksum(b[pieceHeaderSize:]))
	if _, err := parsePiece(b, func(*item) error { return nil }); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("an unknown flag: %v", err)
	}
}

func FuzzSnapshotPiece(f *testing.F) {
	f.Add(samplePiece())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parsePiece(b, func(it *item) error {
			if it.kind == itemBatch && len(it.bytes) < codec.EnvelopeSize {
				t.Fatal("batch without an envelope")
			}
			return nil
		})
		if len(b) > pieceHeaderSize { // past the CRC
			binary.LittleEndian.PutUint32(b[12:], codec.Checksum(b[pieceHeaderSize:]))
			binary.LittleEndian.PutUint16(b[2:], pieceHeaderSize)
			_, _ = parsePiece(b, func(*item) error { return nil })
		}
	})
}

func TestNewerFormatIsRefusedBeforeAByteIsWritten(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	f := sampleFormat()
	f.version, f.minReader = 9, formatVersion+1
	if err := writeFile(fs, "data", formatName, f.encode()); err != nil {
		t.Fatal(err)
	}
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind.Changes() && op.Kind != vfs.OpOpen {
			t.Errorf("%s of %s", op.Kind, op.Name)
		}
		return nil
	})
	if _, err := Open(testConfig(fs)); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestForeignDirectoriesAreRefused(t *testing.T) {
	mesh, other := rhumb.NewUUID(), rhumb.NewUUID()
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := testConfig(fs)
	cfg.Mesh = mesh
	n := start(t, cfg)
	data, got := n.store.Identity()
	if got != mesh || data.IsZero() {
		t.Errorf("identity %v %v", data, got)
	}
	if _, err := Open(cfg); err == nil {
		t.Error("a directory in use was opened")
	}
	n.close()
	cfg.Mesh = other
	if _, err := Open(cfg); rhumb.KindOf(err) != rhumb.KindForbidden {
		t.Errorf("other mesh: %v", err)
	}
	cfg.Mesh, cfg.Shards = mesh, 5
	if _, err := Open(cfg); rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("other number of shards: %v", err)
	}
	cfg.Shards = 2
	n = start(t, cfg)
	if again, _ := n.store.Identity(); again != data {
		t.Error("the data directory has another id")
	}
	n.close()
	if err := fs.Remove("data/FORMAT"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Errorf("without FORMAT: %v", err)
	}
}
