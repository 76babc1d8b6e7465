package codec

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// testBatch builds a valid batch of n records of opaque bytes.
func testBatch(n int32, payload string) []byte {
	b := make([]byte, BatchHeaderSize, BatchHeaderSize+len(payload))
	b = append(b, payload...)
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(n-1))
	be.PutUint64(b[27:], 1700000000000)
	be.PutUint64(b[35:], 1700000000123)
	be.PutUint64(b[43:], 1<<48|7)
	be.PutUint16(b[51:], 3)
	be.PutUint32(b[53:], 11)
	be.PutUint32(b[57:], uint32(n))
	be.PutUint32(b[17:], Checksum(b[BatchCRCStart:]))
	return b
}

func testEnvelope() Envelope {
	return Envelope{
		Flags: FlagDecided, Region: 3, Partition: 77, Life: rhumb.Life{1, 2, 3, 15: 9}, First: 100, Last: 104, Prev: 90,
		Chain: 0xdeadbeefcafe, AppendTime: 1700000000456, Count: 5,
	}
}

func TestCheckBatch(t *testing.T) {
	good := testBatch(5, "records")
	h, err := CheckBatch(good)
	if err != nil {
		t.Fatal(err)
	}
	if h.Count != 5 || h.ProducerID != 1<<48|7 || h.ProducerEpoch != 3 || h.BaseSequence != 11 || h.Size != len(good) ||
		h.MaxTimestamp != 1700000000123 || !h.Idempotent() {
		t.Errorf("header read wrong: %+v", h)
	}
	PatchBatch(good, 4711, 9)
	if h, err = CheckBatch(good); err != nil || h.BaseOffset != 4711 || h.LastOffset() != 4715 || h.LeaderEpoch != 9 {
		t.Errorf("a patched batch must stay valid: %+v, %v", h, err)
	}
	bad := map[string]func(b []byte) []byte{
		"magic 1":          func(b []byte) []byte { b[16] = 1; return b },
		"flipped bit":      func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"short":            func(b []byte) []byte { return b[:40] },
		"cut":              func(b []byte) []byte { return b[:len(b)-1] },
		"trailing bytes":   func(b []byte) []byte { return append(b, 0) },
		"negative length":  func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31); return b },
		"count over delta": func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 6); return fixCRC(b) },
		"no records":       func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 0); return fixCRC(b) },
		"codec 5":          func(b []byte) []byte { b[22] = 5; return fixCRC(b) },
	}
	for name, damage := range bad {
		if _, err := CheckBatch(damage(testBatch(5, "records"))); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}

func fixCRC(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], Checksum(b[BatchCRCStart:]))
	return b
}

func TestEnvelopeGolden(t *testing.T) {
	batch := testBatch(5, "records")
	PatchBatch(batch, 4711, 9)
	e := testEnvelope()
	b := append(make([]byte, EnvelopeSize), batch...)
	e.Put(b, batch)
	path := filepath.Join("testdata", "envelope-v1.golden")
	if *rewrite {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("the envelope's bytes changed:\n%x\nwant\n%x", b, want)
	}
	got, gotBatch, n, err := ParseEnvelope(want)
	if err != nil || got != e || n != len(want) || !bytes.Equal(gotBatch, batch) {
		t.Errorf("golden envelope read as %+v, %d bytes, %v", got, n, err)
	}
}

// TestEnvelopeOfALaterVersion: optional fields behind the header are skipped,
// a required flag is refused.
func TestEnvelopeOfALaterVersion(t *testing.T) {
	batch := testBatch(1, "r")
	e := testEnvelope()
	var old [EnvelopeSize]byte
	e.Put(old[:], batch)
	longer := append(append(old[:], 1, 2, 3, 4, 5, 6, 7, 8), batch...)
	longer[1] = 2
	binary.LittleEndian.PutUint16(longer[2:], EnvelopeSize+8)
	binary.LittleEndian.PutUint32(longer[envelopeCRCAt:], envelopeCRC(longer[:EnvelopeSize+8], batch))
	got, gotBatch, n, err := ParseEnvelope(longer)
	if err != nil || got != e || n != len(longer) || !bytes.Equal(gotBatch, batch) {
		t.Errorf("a longer header: %+v, %d bytes, %v", got, n, err)
	}
	longer[5] = 2
	if _, _, _, err := ParseEnvelope(longer); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("a required flag: %v, want kind unsupported", err)
	}
}

// TestThinnedEnvelope: the CRC that the chain was made of stays known.
func TestThinnedEnvelope(t *testing.T) {
	batch := testBatch(1, "r")
	e := testEnvelope()
	e.Flags |= FlagThinned
	e.OriginCRC = 0xfeedface
	b := append(make([]byte, EnvelopeSize), batch...)
	e.Put(b, batch)
	got, _, _, err := ParseEnvelope(b)
	if err != nil || got != e || got.ChainCRC(5) != 0xfeedface || binary.LittleEndian.Uint32(b[80:]) != 0xfeedface {
		t.Errorf("read as %+v: %v", got, err)
	}
	whole := testEnvelope()
	if whole.ChainCRC(5) != 5 {
		t.Error("a whole batch's chain is made of another CRC than its own")
	}
}

// TestEnvelopeCoversHeader: each flipped bit of the envelope or of the batch
// header is noticed.
func TestEnvelopeCoversHeader(t *testing.T) {
	batch := testBatch(2, "some records")
	e := testEnvelope()
	b := append(make([]byte, EnvelopeSize), batch...)
	e.Put(b, batch)
	for i := range (EnvelopeSize + BatchHeaderSize) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, _, _, err := ParseEnvelope(b); err == nil {
			t.Fatalf("bit %d of byte %d flipped unnoticed", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestChainTellsLogsApart(t *testing.T) {
	seen := map[uint64]bool{}
	for _, prev := range []uint64{0, 1, 1 << 63} {
		for first := range rhumb.Offset(20) {
			for last := first; last < first+5; last++ {
				for _, crc := range []uint32{0, 1, 0xffffffff} {
					c := NextChain(prev, first, last, crc)
					if seen[c] {
						t.Fatalf("two histories share chain %#x", c)
					}
					seen[c] = true
				}
			}
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	batch := testBatch(5, "records")
	e := testEnvelope()
	b := append(make([]byte, EnvelopeSize), batch...)
	e.Put(b, batch)
	f.Add(b)
	f.Add(b[:EnvelopeSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, batch, n, err := ParseEnvelope(b)
		if err != nil {
			return
		}
		if n > len(b) || len(batch) != int(e.BatchSize) {
			t.Fatalf("took %d of %d bytes, batch of %d", n, len(b), len(batch))
		}
		again := make([]byte, EnvelopeSize)
		e.Put(again, batch)
		if got, _, _, err := ParseEnvelope(append(again, batch...)); err != nil || got != e {
			t.Fatalf("does not survive a round trip: %+v %v", got, err)
		}
	})
}

func FuzzCheckBatch(f *testing.F) {
	f.Add(testBatch(5, "records"))
	f.Add(testBatch(1, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := CheckBatch(b); err == nil && (h.Size != len(b) || h.Count <= 0) {
			t.Fatalf("accepted %+v in %d bytes", h, len(b))
		}
	})
}

func BenchmarkCheckBatch(b *testing.B) {
	batch := testBatch(16, string(make([]byte, 16<<10)))
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CheckBatch(batch); err != nil {
			b.Fatal(err)
		}
	}
}
