package storage

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI9BatchOfTooManyRecordsStaysClosed: a small batch that holds a huge number of
// records is not taken apart.
func TestI9BatchOfTooManyRecordsStaysClosed(t *testing.T) {
	s, err := Open(testConfig(vfs.NewMem(vfs.MemConfig{})))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, n := range []int{compactRecords, compactRecords + 1} {
		records := make([]codec.PlainRecord, n)
		for i := range records {
			records[i].Key = []byte{byte(i), byte(i >> 8), byte(i >> 16)}
		}
		batch := codec.BuildBatch(codec.NoSender, records)
		e := codec.Envelope{Region: 1, Partition: 1, Life: ownLife, Last: rhumb.Offset(n - 1), Prev: -1, Count: uint32(n)}
		raw := append(make([]byte, codec.EnvelopeSize), batch...)
		e.Put(raw, batch)
		r := &index.Ref{Span: uint32(n), Size: uint32(len(raw)), Source: &index.Source{Region: 1, Life: ownLife}}
		p := &pass{s: s, target: target{id: 1}, sum: compact.NewSum()}
		b, ok, err := p.open(r, raw)
		if err != nil || ok != (n <= compactRecords) || ok != (len(b.records) == n) {
			t.Errorf("%d records: %d are looked at, %v, %v", n, len(b.records), ok, err)
		}
	}
}
