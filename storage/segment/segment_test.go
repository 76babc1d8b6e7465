package segment

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

var update = flag.Bool("update", false, "write the golden files anew")

type memFile struct{ b []byte }

func (m *memFile) WriteAt(b []byte, off int64) (int, error) {
	if need := int(off) + len(b); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[off:], b), nil
}

func sampleBatch(p rhumb.PartitionID, base rhumb.Offset, payload string) (index.Ref, []byte) {
	batch := append(make([]byte, codec.BatchHeaderSize), payload...)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[57:], 1)
	binary.BigEndian.PutUint32(batch[17:], codec.Checksum(batch[21:]))
	codec.PatchBatch(batch, base, 3)
	e := codec.Envelope{Region: 1, Partition: p, Life: rhumb.Life{9}, First: base, Last: base, Prev: base - 1, AppendTime: 1700000000000, Count: 1}
	b := make([]byte, codec.EnvelopeSize+len(batch))
	e.Put(b, batch)
	copy(b[codec.EnvelopeSize:], batch)
	return index.Ref{Base: base, Span: 1, Size: uint32(len(b)), First: base, Source: &index.Source{Region: 1, Life: e.Life},
		MaxTime: 1700000000000 + int64(base), AppendTime: e.AppendTime, Raft: uint64(base) + 1}, b
}

func sampleSegment(t testing.TB) []byte {
	f := &memFile{}
	w := NewWriter(f, 0x11)
	for _, p := range []rhumb.PartitionID{4, 9} {
		w.Partition(index.Key{Shard: 2, Partition: p}, nil, nil)
		for base, payload := range []string{"one", "two two", "three"} {
			r, b := sampleBatch(p, rhumb.Offset(base), payload)
			if err := w.Add(r, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, size, err := w.Finish([]index.ShardEnd{{Shard: 2, Index: 8, Term: 1}})
	if err != nil || size != int64(len(f.b)) {
		t.Fatalf("size %d of %d, %v", size, len(f.b), err)
	}
	return f.b
}

func TestGoldenSegment(t *testing.T) {
	b := sampleSegment(t)
	path := filepath.Join("testdata", "segment.seg")
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
		t.Error("the format has changed")
	}
	r, err := Open(bytes.NewReader(want), int64(len(want)), index.NewCache(1<<20))
	if err != nil || r.ID != 0x11 {
		t.Fatalf("open: %x, %v", r.ID, err)
	}
	var got []string
	r.Table.Walk(func(p *index.Part, _ uint64, blk *index.Block, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range blk.Refs {
			_, batch, err := r.Batch(p.Key.Partition, &blk.Refs[i])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(batch[codec.BatchHeaderSize:]))
		}
	})
	if len(got) != 6 || got[4] != "two two" {
		t.Errorf("got %q", got)
	}
}

func TestDamagedBatchIsRefused(t *testing.T) {
	b := sampleSegment(t)
	at := bytes.Index(b, []byte("two two"))
	b[at] ^= 1
	r, err := Open(bytes.NewReader(b), int64(len(b)), index.NewCache(0))
	if err != nil {
		t.Fatal(err)
	}
	var bad int
	r.Table.Walk(func(p *index.Part, _ uint64, blk *index.Block, _ error) {
		for i := range blk.Refs {
			if _, _, err := r.Batch(p.Key.Partition, &blk.Refs[i]); rhumb.KindOf(err) == rhumb.KindCorrupt {
				bad++
			}
		}
	})
	if bad != 1 {
		t.Errorf("%d batches are damaged, want 1", bad)
	}
}

func TestWriterRefusesWrongOrder(t *testing.T) {
	w := NewWriter(&memFile{}, 1)
	r, b := sampleBatch(4, 5, "x")
	if err := w.Add(r, b); err == nil {
		t.Error("batch without a partition was taken")
	}
	w.Partition(index.Key{Shard: 1, Partition: 4}, nil, nil)
	if err := w.Add(r, b[1:]); err == nil {
		t.Error("batch of another length was taken")
	}
	for range 2 {
		if err := w.Add(r, b); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.Finish(nil); err == nil {
		t.Error("one offset twice was taken")
	}
}

func FuzzSegment(f *testing.F) {
	f.Add(sampleSegment(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(bytes.NewReader(b), int64(len(b)), index.NewCache(1<<20))
		if err != nil {
			return
		}
		r.Table.Walk(func(p *index.Part, _ uint64, blk *index.Block, err error) {
			for i := 0; err == nil && i < len(blk.Refs); i++ {
				if blk.Refs[i].Size < 1<<20 {
					_, _, _ = r.Batch(p.Key.Partition, &blk.Refs[i])
				}
			}
		})
	})
}
