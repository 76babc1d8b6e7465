package codec

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// EnvelopeSize is the length of an envelope as this version writes it.
const EnvelopeSize = 88

// MaxEnvelopeSize bounds the header length that a reader accepts.
const MaxEnvelopeSize = 1024

// MaxBatchSize bounds a stored batch: above any request that is accepted.
const MaxBatchSize = 128 << 20

const (
	envelopeMagic   = 0xE7
	envelopeVersion = 1
	envelopeCRCAt   = 84

	// FlagDecided marks a batch of a committed transaction that crossed a link.
	FlagDecided uint16 = 1

	// FlagThinned marks a batch that compaction took records out of. Its last offset
	// delta is that of the whole batch, its count only what is left, and the chain
	// is proved by OriginCRC. Readers that do not know this refuse it.
	FlagThinned uint16 = 0x0100

	envelopeRequired = 0xff00 &^ FlagThinned // that this version does not know
)

// Envelope is the fixed header before each stored batch.
type Envelope struct {
	Flags      uint16
	Region     rhumb.RegionNumber
	Partition  rhumb.PartitionID // where it is stored; set anew at each region
	Life       rhumb.Life        // of the origin
	First      rhumb.Offset      // at the origin
	Last       rhumb.Offset      // at the origin
	Prev       rhumb.Offset      // at the origin
	Chain      uint64            // at Last
	AppendTime int64             // at the origin, ms since 1970
	Count      uint32
	BatchSize  uint32
	OriginCRC  uint32 // of the batch as its origin stored it, if it is thinned; else 0
}

// Origin is the identity of the batch's first record.
func (e *Envelope) Origin() rhumb.Origin {
	return rhumb.Origin{Region: e.Region, Life: e.Life, Offset: e.First}
}

// Thinned tells if compaction took records out of the batch.
func (e *Envelope) Thinned() bool { return e.Flags&FlagThinned != 0 }

// ChainCRC is the CRC that went into the chain, of a batch that has that CRC now.
func (e *Envelope) ChainCRC(batchCRC uint32) uint32 {
	if e.Thinned() {
		return e.OriginCRC
	}
	return batchCRC
}

// Put writes the envelope of batch into b, which holds at least EnvelopeSize
// bytes. The batch must have been patched already, since the CRC covers its
// header. BatchSize is taken from batch.
func (e *Envelope) Put(b, batch []byte) {
	b = b[:EnvelopeSize]
	e.BatchSize = uint32(len(batch))
	b[0], b[1] = envelopeMagic, envelopeVersion
	le := binary.LittleEndian
	le.PutUint16(b[2:], EnvelopeSize)
	le.PutUint16(b[4:], e.Flags)
	le.PutUint16(b[6:], uint16(e.Region))
	le.PutUint64(b[8:], uint64(e.Partition))
	copy(b[16:32], e.Life[:])
	le.PutUint64(b[32:], uint64(e.First))
	le.PutUint64(b[40:], uint64(e.Last))
	le.PutUint64(b[48:], uint64(e.Prev))
	le.PutUint64(b[56:], e.Chain)
	le.PutUint64(b[64:], uint64(e.AppendTime))
	le.PutUint32(b[72:], e.Count)
	le.PutUint32(b[76:], e.BatchSize)
	le.PutUint32(b[80:], e.OriginCRC)
	le.PutUint32(b[envelopeCRCAt:], envelopeCRC(b, batch))
}

func envelopeCRC(header, batch []byte) uint32 {
	crc := Checksum(header[:envelopeCRCAt])
	crc = ChecksumUpdate(crc, header[envelopeCRCAt+4:])
	return ChecksumUpdate(crc, batch[:min(len(batch), BatchHeaderSize)])
}

// ParseEnvelope reads the envelope at the start of b and the batch behind it,
// checks the envelope's CRC, and gives the batch and how many bytes both take.
// The batch's own CRC is not checked. Errors are of kind corrupt or unsupported.
func ParseEnvelope(b []byte) (e Envelope, batch []byte, n int, err error) {
	e, size, err := ParseEnvelopeHead(b)
	if err != nil {
		return e, nil, 0, err
	}
	if n = size + int(e.BatchSize); len(b) < n {
		return e, nil, 0, rhumb.Errorf(rhumb.KindCorrupt, "envelope: %d bytes, want %d", len(b), n)
	}
	return e, b[size:n:n], n, nil
}

// ParseEnvelopeHead is ParseEnvelope for a batch that is not all in b: it needs the
// envelope and the batch's header, and gives where the batch begins.
// MaxEnvelopeSize+BatchHeaderSize bytes are always enough.
func ParseEnvelopeHead(b []byte) (e Envelope, size int, err error) {
	if len(b) < EnvelopeSize || b[0] != envelopeMagic {
		return e, 0, rhumb.Errorf(rhumb.KindCorrupt, "envelope: no header in %d bytes", len(b))
	}
	le := binary.LittleEndian
	size = int(le.Uint16(b[2:]))
	e.Flags = le.Uint16(b[4:])
	e.BatchSize = le.Uint32(b[76:])
	switch {
	case e.Flags&envelopeRequired != 0:
		return e, 0, rhumb.Errorf(rhumb.KindUnsupported, "envelope: version %d, flags %#x need a newer reader", b[1], e.Flags)
	case size < EnvelopeSize || size > MaxEnvelopeSize || e.BatchSize > MaxBatchSize || e.BatchSize < BatchHeaderSize:
		return e, 0, rhumb.Errorf(rhumb.KindCorrupt, "envelope: header of %d and batch of %d bytes", size, e.BatchSize)
	case len(b) < size+BatchHeaderSize:
		return e, 0, rhumb.Errorf(rhumb.KindCorrupt, "envelope: %d bytes, want at least %d", len(b), size+BatchHeaderSize)
	}
	if le.Uint32(b[envelopeCRCAt:]) != envelopeCRC(b[:size], b[size:]) {
		return e, 0, rhumb.Errorf(rhumb.KindCorrupt, "envelope: CRC does not match")
	}
	e.Region = rhumb.RegionNumber(le.Uint16(b[6:]))
	e.Partition = rhumb.PartitionID(le.Uint64(b[8:]))
	copy(e.Life[:], b[16:32])
	e.First = rhumb.Offset(le.Uint64(b[32:]))
	e.Last = rhumb.Offset(le.Uint64(b[40:]))
	e.Prev = rhumb.Offset(le.Uint64(b[48:]))
	e.Chain = le.Uint64(b[56:])
	e.AppendTime = int64(le.Uint64(b[64:]))
	e.Count = le.Uint32(b[72:])
	if e.Thinned() {
		e.OriginCRC = le.Uint32(b[80:])
	}
	return e, size, nil
}

// NextChain gives the chain value after a batch: a hash of the origin's chain
// before it and the batch's place and CRC. Logs with the same chain at the same
// offset are the same up to it.
func NextChain(prev uint64, first, last rhumb.Offset, batchCRC uint32) uint64 {
	h := mix(prev ^ 0x9e3779b97f4a7c15)
	h = mix(h ^ uint64(first))
	return mix(h ^ uint64(batchCRC)<<32 ^ uint64(uint32(last-first)))
}

// mix is the 64-bit finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
