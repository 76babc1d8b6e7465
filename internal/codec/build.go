package codec

import "encoding/binary"

// PlainRecord is a record to be put into a batch. Its timestamp is in ms since
// 1970; a nil key or value is null.
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

// Sender is what a batch says of the producer that sent it.
type Sender struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the batch's first record
}

// NoSender is the sender of a batch that no idempotent producer sent.
var NoSender = Sender{NoProducer, -1, -1}

// BuildBatch makes one uncompressed batch of at least one record. Base offset
// and leader epoch are patched where it is stored.
func BuildBatch(s Sender, records []PlainRecord) []byte {
	first, latest, size := records[0].Timestamp, records[0].Timestamp, BatchHeaderSize
	for i := range records {
		r := &records[i]
		latest = max(latest, r.Timestamp)
		size += len(r.Key) + len(r.Value) + recordOverhead
	}
	b := make([]byte, BatchHeaderSize, size)
	var body []byte
	for i := range records {
		body = appendRecord(body[:0], &records[i], int64(i), first)
		b = binary.AppendVarint(b, int64(len(body)))
		b = append(b, body...)
	}
	be := binary.BigEndian
	be.PutUint32(b[12:], 1<<32-1) // leader epoch -1: not known yet
	b[16] = 2                     // magic
	be.PutUint32(b[23:], uint32(len(records)-1))
	be.PutUint64(b[27:], uint64(first))
	be.PutUint64(b[35:], uint64(latest))
	be.PutUint64(b[43:], uint64(s.ID))
	be.PutUint16(b[51:], uint16(s.Epoch))
	be.PutUint32(b[53:], uint32(s.Sequence))
	be.PutUint32(b[57:], uint32(len(records)))
	SealBatch(b)
	return b
}

// recordOverhead is about what a record takes besides key and value.
const recordOverhead = 24

func appendRecord(b []byte, r *PlainRecord, delta, first int64) []byte {
	b = append(b, 0) // attributes: none are defined
	b = binary.AppendVarint(b, r.Timestamp-first)
	b = binary.AppendVarint(b, delta)
	b = appendPart(b, r.Key)
	b = appendPart(b, r.Value)
	b = binary.AppendVarint(b, int64(len(r.Headers)))
	for _, h := range r.Headers {
		b = append(binary.AppendVarint(b, int64(len(h.Key))), h.Key...)
		b = appendPart(b, h.Value)
	}
	return b
}

func appendPart(b, part []byte) []byte {
	if part == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(part))), part...)
}

// SealBatch states the length of b, which is one whole batch, and computes its
// CRC: for a batch that was changed beyond what [PatchBatch] does.
func SealBatch(b []byte) {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], Checksum(b[BatchCRCStart:]))
}
