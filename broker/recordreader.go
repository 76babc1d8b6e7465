package broker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// recordReader reads records of magic 2 from a stream of expanded bytes:
// length, attributes, timestamp delta, offset delta, key, value, headers, all
// lengths and deltas zigzag varints.
type recordReader struct {
	r    *bufio.Reader
	left int64 // bytes that may still be read
}

var errTooLong = rhumb.Errorf(rhumb.KindTooLarge, "record batch: expands to more than is looked at")

// next reads one record whole.
func (r *recordReader) next(h codec.BatchHeader) (Record, error) {
	rec, err := r.read(h)
	switch {
	case err == nil:
		return rec, nil
	case errors.As(err, new(*rhumb.Error)):
		return rec, err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return rec, rhumb.Errorf(rhumb.KindCorrupt, "record batch: record does not parse: %w", err)
}

func (r *recordReader) read(h codec.BatchHeader) (Record, error) {
	size, err := binary.ReadVarint(r.r)
	if err != nil {
		return Record{}, err
	}
	if size < 0 || size > r.left {
		if size < 0 {
			return Record{}, errors.New("negative length")
		}
		return Record{}, errTooLong
	}
	r.left -= size
	body := bodyReader{r: r.r, left: size}
	if _, err := body.ReadByte(); err != nil { // attributes: none are defined
		return Record{}, err
	}
	dt := body.varint()
	offset := body.varint()
	keyLen := body.varint()
	body.skip(max(keyLen, 0))
	body.skip(max(body.varint(), 0)) // value
	for n := body.varint(); n > 0 && body.err == nil; n-- {
		body.skip(body.varint())         // header key: may not be null
		body.skip(max(body.varint(), 0)) // header value
	}
	if body.err == nil && body.left != 0 {
		body.err = errors.New("bytes left over")
	}
	rec := Record{Offset: h.BaseOffset + rhumb.Offset(offset), Timestamp: h.FirstTimestamp + dt, HasKey: keyLen >= 0}
	if h.Attributes&codec.AttrLogAppendTime != 0 {
		rec.Timestamp = h.MaxTimestamp // one time for the whole batch
	}
	return rec, body.err
}

// bodyReader reads inside one record. It remembers the first error and gives
// zeros after it.
type bodyReader struct {
	r    *bufio.Reader
	left int64
	err  error
}

// ReadByte implements io.ByteReader.
func (b *bodyReader) ReadByte() (byte, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b.left--
	return b.r.ReadByte()
}

func (b *bodyReader) varint() int64 {
	if b.err != nil {
		return 0
	}
	var v int64
	v, b.err = binary.ReadVarint(b)
	return v
}

func (b *bodyReader) skip(n int64) {
	if b.err != nil {
		return
	}
	if n < 0 || n > b.left {
		b.err = errors.New("length outside of the record")
		return
	}
	b.left -= n
	for n > 0 && b.err == nil {
		var m int
		m, b.err = b.r.Discard(int(min(n, 1<<20)))
		n -= int64(m)
	}
}
