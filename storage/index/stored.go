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
	e, batch, n, err := codec.ParseEnvelope(b)
	if err != nil {
		return e, nil, err
	}
	base := rhumb.Offset(binary.BigEndian.Uint64(batch))
	if n != len(b) || e.Partition != p || base != r.Base || e.First != r.First || e.Last != r.OriginLast() {
		return e, nil, corruptf("batch at offset %d: found partition %d, offset %d, origin offsets %d to %d, %d bytes",
			r.Base, e.Partition, base, e.First, e.Last, n)
	}
	if payload && codec.Checksum(batch[21:]) != binary.BigEndian.Uint32(batch[17:]) {
		return e, nil, corruptf("batch at offset %d: CRC does not match", r.Base)
	}
	return e, batch, nil
}
