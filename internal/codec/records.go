package codec

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Records reads the records of one batch, magic 2, in order: length, attributes,
// timestamp delta, offset delta, key, value, headers, all lengths and deltas
// zigzag varints. A negative length of a key or value is null. It is not safe
// for concurrent use.
//
// It holds a window of the expanded bytes. Where they are in memory anyway (not
// compressed, or a raw snappy block), the window is all of them.
type Records struct {
	from   *Expander
	header BatchHeader
	read   int32 // records so far
	left   int64 // expanded bytes of records that may still be looked at
	rest   int64 // of the record that is being read
	err    error // the first, for good

	tee io.Writer // gets what is read of a record, if it is set

	buf []byte // expanded bytes; those before at are read
	at  int
	src io.Reader // what follows buf; nil at the end
	own []byte    // the room for buf if there is a src

	decoders decoders
}

// window is the room for expanded bytes at first. It grows only for a whole
// record that does not fit.
const window = 8 << 10

var errTooLong = rhumb.Errorf(rhumb.KindTooLarge, "record batch: expands to more than is looked at")

// Header is the header of the batch.
func (r *Records) Header() BatchHeader { return r.header }

// Close gives the decoders back. No record may be used any more.
func (r *Records) Close() {
	r.read, r.rest, r.err, r.tee = 0, 0, nil, nil
	r.buf, r.at, r.src = nil, 0, nil
	r.own = keepSmall(r.own)
	r.decoders.reset()
	r.from.free.Put(r)
}

// NextStamp reads the next record and checks how it is built, but keeps nothing
// of its content, so it needs no room however large the record is. After the
// last record the error is io.EOF; others are of kind corrupt, or too large.
func (r *Records) NextStamp() (Stamp, error) {
	rec := r.next(reading{})
	return rec.Stamp, r.err
}

// NextKey is NextStamp, and writes the record's key to key, in pieces. It tells if the
// value is null.
func (r *Records) NextKey(key io.Writer) (s Stamp, null bool, err error) {
	rec := r.next(reading{key: key})
	return rec.Stamp, rec.Value == nil, r.err
}

// CopyNext is NextStamp, and writes the record, with its length, to w, in pieces. After
// an error w may have a part of it.
func (r *Records) CopyNext(w io.Writer) (Stamp, error) {
	rec := r.next(reading{raw: w})
	return rec.Stamp, r.err
}

// Next is NextStamp with the record's content. It takes room for all of that, which may
// be [Limits] Bytes: records that others sent are for NextParts, unless they were looked
// at before.
func (r *Records) Next() (Record, error) {
	rec := r.next(reading{whole: true})
	return rec, r.err
}

// NextParts is NextStamp, and hands what the record has to p, in pieces.
func (r *Records) NextParts(p Parts) (Stamp, error) {
	rec := r.next(reading{parts: p})
	return rec.Stamp, r.err
}

// Parts gets what a record has while it is read, in the record's order, and decides what
// room that may take. Its methods are called as follows; after an error of the record or
// of a method, which NextParts gives, no more.
//
//	Begin, Part and Write for the key, the same for the value, Headers,
//	Part and Write for each header's key and value
type Parts interface {
	// Begin names the record and its size in bytes, as it states it. Of the stamp it is
	// not known yet if there is a key. An error should have a kind.
	Begin(s Stamp, size int64) error
	// Headers gives the number of headers, as stated. An error should have a kind.
	Headers(n int64) error
	// Part gives the length of the part that follows, -1 for null, which is never more than
	// the record's size. A header whose key is null is refused behind it.
	Part(length int64)
	// Write gets the bytes of the part, in any number of pieces, which are valid only until
	// it returns.
	io.Writer
}

// reading says what is wanted of a record: its parts, which need room, or to have its
// key, or all of it, or its parts, handed to somebody.
type reading struct {
	whole    bool
	key, raw io.Writer
	parts    Parts
	size     int64 // of the record
}

func (r *Records) next(how reading) Record {
	switch {
	case r.err != nil:
		return Record{}
	case r.read >= r.header.Count:
		r.end()
		return Record{}
	}
	r.rest = binary.MaxVarintLen64
	size := r.short()
	if r.err == nil && (size < 0 || size > r.left) {
		r.err = errTooLong
		if size < 0 {
			r.err = errors.New("negative length")
		}
	}
	r.left -= size
	r.rest = size
	if how.whole {
		r.gather(size)
	}
	if how.raw != nil && r.err == nil {
		var length [binary.MaxVarintLen64]byte
		_, r.err = how.raw.Write(binary.AppendVarint(length[:0], size))
		r.tee = how.raw
	}
	raw := r.buf[r.at:]
	how.size = size
	rec := r.body(how)
	r.tee = nil
	if how.whole && r.err == nil {
		rec.Raw = raw[:size:size]
	}
	r.read++
	if r.err != nil {
		r.fail()
		return Record{}
	}
	return rec
}

// end checks that nothing follows the last record.
func (r *Records) end() {
	if r.peek(1); len(r.buf) > r.at {
		r.err = rhumb.Errorf(rhumb.KindCorrupt, "record batch: bytes follow its %d records", r.header.Count)
	} else if r.err == nil {
		r.err = io.EOF
	} else {
		r.fail()
	}
}

// fail gives the error a kind.
func (r *Records) fail() {
	if _, ours := errors.AsType[*rhumb.Error](r.err); !ours {
		r.err = rhumb.Errorf(rhumb.KindCorrupt, "record batch: record %d of %d does not parse: %w", r.read, r.header.Count, r.err)
	}
}

// body reads what follows a record's length. If the record is not whole in the
// window, the parts of rec are not those of the record, only nil or not.
func (r *Records) body(how reading) (rec Record) {
	r.skip(1) // attributes: none are defined
	rec.Timestamp = r.header.FirstTimestamp + r.varint()
	rec.Delta = r.short()
	if r.header.Attributes&AttrLogAppendTime != 0 {
		rec.Timestamp = r.header.MaxTimestamp // one time for the whole batch
	}
	if how.parts != nil && r.err == nil {
		r.err = how.parts.Begin(rec.Stamp, how.size)
	}
	rec.Key = r.key(how)
	rec.Value = r.part(how.parts)
	rec.HasKey = rec.Key != nil
	count := r.short()
	if count < 0 && r.err == nil {
		r.err = errors.New("negative number of headers")
	}
	if how.parts != nil && r.err == nil {
		r.err = how.parts.Headers(count)
	}
	from := r.at
	for n := count; n > 0 && r.err == nil; n-- {
		if r.part(how.parts) == nil && r.err == nil {
			r.err = errors.New("header without a key")
		}
		r.part(how.parts)
	}
	if r.err == nil && r.rest != 0 {
		r.err = errors.New("bytes left over")
	}
	if how.whole && r.err == nil {
		rec.Headers = Headers{int(count), r.buf[from:r.at]}
	}
	return rec
}

// key reads the key, and hands it to who wants it.
func (r *Records) key(how reading) []byte {
	if how.key == nil {
		return r.part(how.parts)
	}
	n := r.short()
	if n < 0 || r.err != nil {
		return nil
	}
	return r.skipTo(how.key, n)
}

// skipTo is skip, and writes the bytes to w.
func (r *Records) skipTo(w io.Writer, n int64) []byte {
	r.tee = w
	part := r.skip(n)
	r.tee = nil
	return part
}

// passed writes the bytes that were read last to who wants them.
func (r *Records) passed(b []byte) {
	if r.tee != nil && r.err == nil {
		_, r.err = r.tee.Write(b)
	}
}

// part reads a length and passes that many bytes, to p if that is not nil; nil is null.
func (r *Records) part(p Parts) []byte {
	n := r.short()
	switch {
	case r.err != nil:
		return nil
	case p == nil && n < 0:
		return nil
	case p == nil:
		return r.skip(n)
	case n < 0:
		p.Part(-1)
		return nil
	case n > r.rest:
		return r.skip(n) // which says so
	}
	p.Part(n)
	return r.skipTo(p, n)
}

// skip passes n bytes of the record. It gives them if they are in the window.
func (r *Records) skip(n int64) []byte {
	switch {
	case r.err != nil:
		return nil
	case n > r.rest:
		r.err = errors.New("length outside of the record")
		return nil
	}
	r.rest -= n
	if have := int64(len(r.buf) - r.at); n <= have {
		part := r.buf[r.at : r.at+int(n) : r.at+int(n)]
		r.at += int(n)
		r.passed(part)
		return part
	}
	for r.err == nil {
		have := int64(len(r.buf) - r.at)
		if n <= have {
			r.passed(r.buf[r.at : r.at+int(n)])
			r.at += int(n)
			break
		}
		n -= have
		r.passed(r.buf[r.at:])
		r.at = len(r.buf)
		if !r.more() && r.err == nil {
			r.err = io.ErrUnexpectedEOF
		}
	}
	return []byte{}
}

// short reads a number of 32 bits: lengths, counts, offset deltas. Longer ones are an
// error, even if their value would fit: consumers read five bytes at the most.
func (r *Records) short() int64 {
	before := r.rest
	v := r.varint()
	if r.err == nil && (before-r.rest > binary.MaxVarintLen32 || v < math.MinInt32 || v > math.MaxInt32) {
		r.err = errors.New("number too long")
	}
	return v
}

// varint reads a number within the record.
func (r *Records) varint() int64 {
	if r.err != nil {
		return 0
	}
	b := r.peek(int(min(r.rest, binary.MaxVarintLen64))) // never past the record: that could move its parts
	v, n := binary.Varint(b[:min(int64(len(b)), r.rest)])
	switch {
	case n > 0:
		r.passed(b[:n])
		r.at += n
		r.rest -= int64(n)
		return v
	case r.err != nil:
	case n == 0:
		r.err = io.ErrUnexpectedEOF
	default:
		r.err = errors.New("number too long")
	}
	return 0
}

// peek gives what is not read yet: at least n bytes, unless the stream ends.
func (r *Records) peek(n int) []byte {
	for len(r.buf)-r.at < n && r.more() {
	}
	return r.buf[r.at:]
}

// gather puts the next n bytes into the window. Room is made as they come, not
// as they are stated.
func (r *Records) gather(n int64) {
	for r.err == nil && int64(len(r.buf)-r.at) < n {
		if !r.more() && r.err == nil {
			r.err = io.ErrUnexpectedEOF
		}
	}
}

// more reads more of the stream behind what the window holds, which may move.
// It reports whether there was any; errors but io.EOF are kept.
func (r *Records) more() bool {
	if r.src == nil {
		return false
	}
	kept := r.buf[r.at:]
	switch {
	case r.own == nil:
		r.own = make([]byte, window)
	case len(kept) == cap(r.own):
		grown := make([]byte, 2*cap(r.own))
		copy(grown, kept)
		r.own = grown
	}
	r.own = r.own[:cap(r.own)]
	copy(r.own, kept)
	for range maxEmptyReads {
		n, err := r.src.Read(r.own[len(kept):])
		r.buf, r.at = r.own[:len(kept)+n], 0
		if err != nil {
			r.src = nil
			if err != io.EOF {
				r.err = err
			}
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	r.err = io.ErrNoProgress
	return false
}

// maxEmptyReads bounds reads in a row that give neither a byte nor an error.
const maxEmptyReads = 100
