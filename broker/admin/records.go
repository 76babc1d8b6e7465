package admin

import (
	"encoding/binary"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// recordLimits bound what reading the records of one batch costs: the time that its
// expanded bytes take, and the memory of a block of snappy and of a window of zstd.
var recordLimits = codec.Limits{Bytes: maxExpanded, Block: maxBlock, Window: maxWindow}

const (
	maxExpanded = 1 << 30
	maxBlock    = 256 << 20
	maxWindow   = 16 << 20
)

// maxHeaders bounds the headers of one record.
const maxHeaders = 10_000

// nobody lets all parts of a record pass.
type nobody struct{}

func (nobody) Begin(codec.Stamp, int64) error { return nil }
func (nobody) Headers(int64) error            { return nil }
func (nobody) Part(int64)                     {}
func (nobody) Write(b []byte) (int, error)    { return len(b), nil }

// hasher sums up what a client sees of a record, each part with its length, so that no
// two records with different parts look the same. It holds none of them. Regions compare
// these sums, whatever their versions: they never change.
type hasher struct {
	sum xxhash.Digest
	n   [binary.MaxVarintLen64]byte
}

func (h *hasher) number(v int64) { h.sum.Write(h.n[:binary.PutVarint(h.n[:], v)]) }

func (h *hasher) Begin(s codec.Stamp, _ int64) error {
	h.sum.Reset()
	h.number(s.Timestamp)
	return nil
}

func (h *hasher) Headers(n int64) error       { h.number(n); return nil }
func (h *hasher) Part(length int64)           { h.number(length) }
func (h *hasher) Write(b []byte) (int, error) { return h.sum.Write(b) }

// eachRecord reads the records of a batch one after the other: their parts go to parts,
// then their stamps to fn. It holds none of them. Errors are of kind corrupt, or too
// large, or what parts and fn gave.
func (s *Server) eachRecord(batch []byte, parts codec.Parts, fn func(codec.Stamp) error) error {
	records, err := s.expander.Open(batch)
	if err != nil {
		return err
	}
	defer records.Close()
	w := &walk{Parts: parts, header: records.Header()}
	for ; ; w.at++ {
		stamp, err := records.NextParts(w)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := fn(stamp); err != nil {
			return err
		}
	}
}

// walk refuses records that no client could place, or would take, before their parts are
// handed on.
type walk struct {
	codec.Parts
	header codec.BatchHeader
	at     int
}

func (w *walk) Begin(s codec.Stamp, size int64) error {
	if s.Delta < 0 || s.Delta > int64(w.header.LastOffsetDelta) {
		return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: offset delta %d outside of 0 to %d", w.at, w.header.Count, s.Delta, w.header.LastOffsetDelta)
	}
	return w.Parts.Begin(s, size)
}

func (w *walk) Headers(n int64) error {
	if n > maxHeaders {
		return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: %d headers, at most %d", w.at, w.header.Count, n, maxHeaders)
	}
	return w.Parts.Headers(n)
}
