package admin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxUnpacked bounds the records of one batch after decompression, maxHeaders
// the headers of one record.
const (
	maxUnpacked = 256 << 20
	maxHeaders  = 10_000
)

// record is one record of a batch. Its slices are valid only during the call
// that hands it over.
type record struct {
	delta      int32 // offset after the batch's first
	timestamp  int64 // ms since 1970
	key, value []byte
	headers    []PlainHeader
}

// hash covers what a client sees of the record, each part with its length, so
// that no two records with different parts look the same.
func (r *record) hash() uint64 {
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
	number(r.timestamp)
	part(r.key)
	part(r.value)
	number(int64(len(r.headers)))
	for _, h := range r.headers {
		part([]byte(h.Key))
		part(h.Value)
	}
	return d.Sum64()
}

// eachRecord decodes the records of a batch one after the other. It holds one
// record in memory; errors are of kind corrupt, or what fn gave.
func eachRecord(batch []byte, fn func(record) error) error {
	h, err := codec.ParseBatch(batch)
	if err != nil {
		return err
	}
	unpacked, err := unpack(h, batch[codec.BatchHeaderSize:h.Size])
	if err != nil {
		return err
	}
	defer unpacked.Close()
	in := &recordReader{r: newByteReader(io.LimitReader(unpacked, maxUnpacked))}
	for i := range h.Count {
		rec, err := in.next()
		if err != nil {
			return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: %w", i, h.Count, err)
		}
		if h.Attributes&codec.AttrLogAppendTime != 0 {
			rec.timestamp = h.MaxTimestamp
		} else {
			rec.timestamp += h.FirstTimestamp
		}
		if rec.delta < 0 || rec.delta > h.LastOffsetDelta {
			return rhumb.Errorf(rhumb.KindCorrupt, "record %d of %d: offset delta %d outside of 0 to %d", i, h.Count, rec.delta, h.LastOffsetDelta)
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}

type recordReader struct {
	r   byteReader
	buf bytes.Buffer
}

// byteReader is what both varints and contents are read from.
type byteReader interface {
	io.Reader
	io.ByteReader
}

func (in *recordReader) next() (record, error) {
	length, err := binary.ReadVarint(in.r)
	switch {
	case err != nil:
		return record{}, err
	case length < 0 || length > maxUnpacked:
		return record{}, fmt.Errorf("length %d", length)
	}
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, length); err != nil { // grows with what is there, not with what is stated
		return record{}, err
	}
	return parseRecord(in.buf.Bytes())
}

// parseRecord reads the body of a record, which is all of b.
func parseRecord(b []byte) (record, error) {
	c := cursor{b: b}
	c.take(1) // attributes: none are defined
	rec := record{timestamp: c.varint()}
	delta := c.varint()
	rec.delta = int32(delta)
	if int64(rec.delta) != delta {
		return rec, fmt.Errorf("offset delta %d", delta)
	}
	rec.key, rec.value = c.bytes(), c.bytes()
	count := c.varint()
	if c.bad || count < 0 || count > maxHeaders || count > int64(len(c.b)) {
		return rec, fmt.Errorf("%d headers in %d bytes", count, len(c.b))
	}
	for range count {
		key, value := c.bytes(), c.bytes()
		rec.headers = append(rec.headers, PlainHeader{string(key), value})
	}
	if c.bad || len(c.b) != 0 {
		return rec, fmt.Errorf("parts do not fill the record of %d bytes", len(b))
	}
	return rec, nil
}

// cursor reads from b and remembers if b was too short.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int64) []byte {
	if c.bad || n < 0 || n > int64(len(c.b)) {
		c.bad = true
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if c.bad || n <= 0 {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// bytes reads a length and that many bytes; length -1 is nil.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n == -1 {
		return nil
	}
	return c.take(n)
}

// PlainRecord is a record to be stored. Its timestamp is in ms since 1970.
type PlainRecord struct {
	Timestamp  int64
	Key, Value []byte
	Headers    []PlainHeader
}

// PlainHeader is a header of a record.
type PlainHeader struct {
	Key   string
	Value []byte
}

// EncodeBatch makes one uncompressed batch of at least one record, without an
// idempotent producer. Base offset and leader epoch are patched where it is stored.
func EncodeBatch(records []PlainRecord) []byte {
	first, latest := records[0].Timestamp, records[0].Timestamp
	b := make([]byte, codec.BatchHeaderSize)
	var body []byte
	for i, r := range records {
		latest = max(latest, r.Timestamp)
		body = append(body[:0], 0)
		body = binary.AppendVarint(body, r.Timestamp-first)
		body = binary.AppendVarint(body, int64(i))
		body = appendBytes(body, r.Key)
		body = appendBytes(body, r.Value)
		body = binary.AppendVarint(body, int64(len(r.Headers)))
		for _, h := range r.Headers {
			body = appendBytes(body, []byte(h.Key))
			body = appendBytes(body, h.Value)
		}
		b = binary.AppendVarint(b, int64(len(body)))
		b = append(b, body...)
	}
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2 // magic
	be.PutUint32(b[23:], uint32(len(records)-1))
	be.PutUint64(b[27:], uint64(first))
	be.PutUint64(b[35:], uint64(latest))
	be.PutUint64(b[43:], ^uint64(0)) // no producer id, epoch or sequence
	be.PutUint16(b[51:], ^uint16(0))
	be.PutUint32(b[53:], ^uint32(0))
	be.PutUint32(b[57:], uint32(len(records)))
	be.PutUint32(b[17:], codec.Checksum(b[crcStart:]))
	return b
}

func appendBytes(b, part []byte) []byte {
	if part == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(part))), part...)
}
