package index

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Open splits b, which was read from the ref's place, into envelope and batch, and
// checks that they are what the index says (I2: an offset never names another
// record). With payload the batch's own CRC is checked too, as bytes from a disk
// need. The batch refers to b. Errors are of kind corrupt or unsupported.
func (r *Ref) Open(p rhumb.PartitionID, b []byte, payload bool) (e codec.Envelope, batch []byte, err error) {
	e, at, err := r.OpenHead(p, b)
	if err != nil {
		return e, nil, err
	}
	if len(b) != int(r.Size) {
		return e, nil, corruptf("batch of offsets %d to %d: %d bytes, want %d", r.Base, r.Last(), len(b), r.Size)
	}
	batch = b[at:len(b):len(b)]
	if payload && codec.Checksum(batch[codec.BatchCRCStart:]) != codec.BatchCRC(batch) {
		return e, nil, r.badCRC()
	}
	return e, batch, nil
}

// OpenHead is Open for the beginning of what is at the ref's place, as long as
// [codec.ParseEnvelopeHead] needs it: it gives where the batch begins. The batch's own
// CRC is not checked.
func (r *Ref) OpenHead(p rhumb.PartitionID, b []byte) (e codec.Envelope, at int, err error) {
	e, at, err = codec.ParseEnvelopeHead(b)
	if err != nil {
		return e, 0, err
	}
	base, n := rhumb.Offset(binary.BigEndian.Uint64(b[at:])), at+int(e.BatchSize)
	if n != int(r.Size) || e.Partition != p || base != r.Base || e.First != r.First || e.Last != r.OriginLast() {
		return e, 0, corruptf("batch of offsets %d to %d: found partition %d, offset %d, origin offsets %d to %d, %d bytes",
			r.Base, r.Last(), e.Partition, base, e.First, e.Last, n)
	}
	return e, at, nil
}

// CheckCRC compares a batch's own CRC, as its header at the start of head says it, with
// that of its bytes.
func (r *Ref) CheckCRC(head []byte, crc uint32) error {
	if codec.BatchCRC(head) != crc {
		return r.badCRC()
	}
	return nil
}

func (r *Ref) badCRC() error {
	return corruptf("batch of offsets %d to %d: CRC does not match", r.Base, r.Last())
}
