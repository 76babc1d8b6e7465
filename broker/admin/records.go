package admin

import (
	"encoding/binary"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// recordLimits bound the records of one batch after decompression.
var recordLimits = codec.Limits{Bytes: 256 << 20, Window: 16 << 20}

// maxHeaders bounds the headers of one record.
const maxHeaders = 10_000

// hashRecord covers what a client sees of the record, each part with its
// length, so that no two records with different parts look the same.
func hashRecord(r codec.Record) uint64 {
	var d xxhash.Digest
	d.Reset()
	var n [binary.MaxVarintLen64]byte
	number := func(v int64) { d.Write(n[:binary.PutVarint(n[:], v)]) }
	part := func(b []byte) {
		if b == nil {
			number(-1)
			return
		}
		number(int64(len(b)))
		d.Write(b)
	}
	number(r.Timestamp)
	part(r.Key)
	part(r.Value)
	number(int64(r.Headers.Len()))
	for key, value := range r.Headers.All() {
		part(key)
		part(value)
	}
	return d.Sum64()
}

// eachRecord decodes the records of a batch one after the other. It holds one
// record in memory; errors are of kind corrupt, or too large, or what fn gave.
func (s *Server) eachRecord(batch []byte, fn func(codec.Record) error) error {
	records, err := s.expander.Open(batch)
	if err != nil {
		return err
	}
	defer records.Close()
	h := records.Header()
	for i := 0; ; i++ {
		rec, err := records.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case rec.Delta < 0 || rec.Delta > int64(h.LastOffsetDelta):
			return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: offset delta %d outside of 0 to %d", i, h.Count, rec.Delta, h.LastOffsetDelta)
		case rec.Headers.Len() > maxHeaders:
			return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: %d headers, at most %d", i, h.Count, rec.Headers.Len(), maxHeaders)
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
}
