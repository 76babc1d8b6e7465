package codec

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// BatchHeaderSize is the length of a record batch before its records.
const BatchHeaderSize = 61

// BatchCRCStart is where the part of a batch that its CRC covers begins.
const BatchCRCStart = 21

// Bits of a batch's attributes.
const (
	AttrCodecMask     = 0x07
	AttrLogAppendTime = 0x08
	AttrTransactional = 0x10
	AttrControl       = 0x20
)

// NoProducer is the producer id of a batch that no idempotent producer sent.
const NoProducer int64 = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC32C that all formats of Rhumb and Kafka's batches use.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// ChecksumUpdate continues a [Checksum].
func ChecksumUpdate(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// BatchHeader is the decoded header of a Kafka record batch.
type BatchHeader struct {
	BaseOffset      rhumb.Offset
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	FirstTimestamp  int64 // ms since 1970
	MaxTimestamp    int64 // ms since 1970, as the client said: not to be trusted
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
	Size            int // whole batch in bytes, header included
}

// LastOffset is the offset of the batch's last record.
func (h BatchHeader) LastOffset() rhumb.Offset {
	return h.BaseOffset + rhumb.Offset(h.LastOffsetDelta)
}

// Idempotent reports whether a producer with an id sent the batch.
func (h BatchHeader) Idempotent() bool { return h.ProducerID != NoProducer }

// ParseBatch reads the header of the batch at the start of b. It checks only
// what it needs to be safe: that header and stated length lie within b. Errors
// are of kind corrupt.
func ParseBatch(b []byte) (BatchHeader, error) {
	if len(b) < BatchHeaderSize {
		return BatchHeader{}, rhumb.Errorf(rhumb.KindCorrupt, "record batch: %d bytes, want at least %d", len(b), BatchHeaderSize)
	}
	length := int64(int32(binary.BigEndian.Uint32(b[8:])))
	if length < BatchHeaderSize-12 || length+12 > int64(len(b)) {
		return BatchHeader{}, rhumb.Errorf(rhumb.KindCorrupt, "record batch: stated length %d does not fit %d bytes", length, len(b))
	}
	return BatchHeader{
		BaseOffset:      rhumb.Offset(binary.BigEndian.Uint64(b[0:])),
		Size:            int(length) + 12,
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[12:])),
		CRC:             binary.BigEndian.Uint32(b[17:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[21:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[23:])),
		FirstTimestamp:  int64(binary.BigEndian.Uint64(b[27:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[35:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[43:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[51:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[53:])),
		Count:           int32(binary.BigEndian.Uint32(b[57:])),
	}, nil
}

// BatchCRC gives the CRC that a batch's header states. b holds at least the header.
func BatchCRC(b []byte) uint32 { return binary.BigEndian.Uint32(b[17:]) }

// BatchMagic gives the magic byte, -1 if b is too short to have one.
func BatchMagic(b []byte) int {
	if len(b) < 17 {
		return -1
	}
	return int(int8(b[16]))
}

// CheckBatch reads and checks one whole batch, which must be all of b: magic,
// CRC, counts and codec. Old formats are of kind invalid, what has no format's magic is
// corrupt, as Kafka 4 tells them apart. It does not decompress or look at records.
func CheckBatch(b []byte) (BatchHeader, error) { return checkBatch(b, nil, false) }

// CheckSummed is CheckBatch for a batch of which the [Checksum] of what its CRC covers, from
// [BatchCRCStart] on, is known already; nil if it is not.
func CheckSummed(b []byte, sum *uint32) (BatchHeader, error) { return checkBatch(b, sum, false) }

// CheckThinned is CheckBatch for a batch that may have fewer records than offsets.
func CheckThinned(b []byte) (BatchHeader, error) { return checkBatch(b, nil, true) }

func checkBatch(b []byte, sum *uint32, thinned bool) (BatchHeader, error) {
	switch m := BatchMagic(b); m {
	case 2:
	case 0, 1, -1: // formats that there were before Kafka 0.11 (KIP-724), or too short for any
		return BatchHeader{}, rhumb.Errorf(rhumb.KindInvalid, "record batch: magic %d, only 2 is accepted", m)
	default: // no format has it: these bytes are something else
		return BatchHeader{}, rhumb.Errorf(rhumb.KindCorrupt, "record batch: magic %d, only 2 is accepted", m)
	}
	h, err := ParseBatch(b)
	switch {
	case err != nil:
		return h, err
	case h.Size != len(b):
		return h, rhumb.Errorf(rhumb.KindInvalid, "record batch: %d bytes follow the batch", len(b)-h.Size)
	case h.Count <= 0 || h.LastOffsetDelta < h.Count-1 || h.LastOffsetDelta != h.Count-1 && !thinned:
		return h, rhumb.Errorf(rhumb.KindInvalid, "record batch: %d records but last offset delta %d", h.Count, h.LastOffsetDelta)
	case h.Attributes&AttrCodecMask > 4:
		return h, rhumb.Errorf(rhumb.KindInvalid, "record batch: unknown compression codec %d", h.Attributes&AttrCodecMask)
	case sum != nil && *sum != h.CRC, sum == nil && Checksum(b[BatchCRCStart:]) != h.CRC:
		return h, rhumb.Errorf(rhumb.KindCorrupt, "record batch: CRC does not match")
	}
	return h, nil
}

// PatchBatch writes the base offset and leader epoch into the batch in place.
// Both lie outside of the batch's CRC.
func PatchBatch(b []byte, base rhumb.Offset, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b[0:], uint64(base))
	binary.BigEndian.PutUint32(b[12:], uint32(leaderEpoch))
}
