package dedup

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	watermarkVersion = 1
	watermarkRecent  = 46
	pointSize        = 16
	watermarkSize    = watermarkRecent + RecentPoints*pointSize

	producerVersion = 1
	producerBatches = 16
	seqRangeSize    = 24

	// requiredFlag, in the byte after the version, is set by a later version
	// whose value an older reader must not use.
	requiredFlag = 0x80
)

// MaxEncodedWatermark bounds the length of an encoded watermark that
// [ParseWatermark] accepts.
const MaxEncodedWatermark = 4096

// Append appends the encoded watermark (see the package comment) to dst.
func (w Watermark) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, watermarkVersion, 0)
	dst = le.AppendUint16(dst, watermarkSize)
	dst = le.AppendUint16(dst, uint16(w.Region))
	dst = append(dst, w.Life[:]...)
	dst = le.AppendUint64(dst, uint64(w.Offset))
	dst = le.AppendUint64(dst, w.Chain)
	dst = le.AppendUint64(dst, uint64(w.Floor))
	for _, p := range w.Recent {
		dst = le.AppendUint64(dst, uint64(p.Offset))
		dst = le.AppendUint64(dst, p.Chain)
	}
	return dst
}

// ParseWatermark reads the watermark at the start of b and gives how many bytes
// it takes. Errors are of kind corrupt or unsupported.
func ParseWatermark(b []byte) (w Watermark, n int, err error) {
	n, err = encodedSize("watermark", b, watermarkSize)
	if err != nil {
		return w, 0, err
	}
	le := binary.LittleEndian
	w.Region = rhumb.RegionNumber(le.Uint16(b[4:]))
	copy(w.Life[:], b[6:22])
	w.Offset = rhumb.Offset(le.Uint64(b[22:]))
	w.Chain = le.Uint64(b[30:])
	w.Floor = rhumb.Offset(le.Uint64(b[38:]))
	for i := range w.Recent {
		at := watermarkRecent + i*pointSize
		w.Recent[i] = ChainPoint{rhumb.Offset(le.Uint64(b[at:])), le.Uint64(b[at+8:])}
	}
	if w.Floor < rhumb.NoOffset || w.Offset < w.Floor {
		return Watermark{}, 0, rhumb.Errorf(rhumb.KindCorrupt, "dedup: watermark %d with floor %d", w.Offset, w.Floor)
	}
	return w, n, nil
}

// Append appends the encoded producer (see the package comment) to dst.
func (p *Producer) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, producerVersion, p.count)
	dst = le.AppendUint16(dst, uint16(producerBatches+int(p.count)*seqRangeSize))
	dst = le.AppendUint16(dst, uint16(p.Epoch))
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint64(dst, uint64(p.LastUse))
	for _, r := range p.Batches() {
		dst = le.AppendUint32(dst, uint32(r.First))
		dst = le.AppendUint32(dst, uint32(r.Last))
		dst = le.AppendUint64(dst, uint64(r.Base))
		dst = le.AppendUint64(dst, uint64(r.Time))
	}
	return dst
}

// ParseProducer reads the producer at the start of b and gives how many bytes
// it takes. Errors are of kind corrupt or unsupported.
func ParseProducer(b []byte) (p Producer, n int, err error) {
	n, err = encodedSize("producer", b, producerBatches)
	if err != nil {
		return p, 0, err
	}
	le := binary.LittleEndian
	p.count = b[1]
	if p.count > RememberedBatches || n < producerBatches+int(p.count)*seqRangeSize {
		return Producer{}, 0, rhumb.Errorf(rhumb.KindCorrupt, "dedup: producer with %d batches in %d bytes", p.count, n)
	}
	p.Epoch = int16(le.Uint16(b[4:]))
	p.LastUse = int64(le.Uint64(b[8:]))
	for i := range p.Batches() {
		r := b[producerBatches+i*seqRangeSize:]
		p.batches[i] = SeqRange{
			First: int32(le.Uint32(r)), Last: int32(le.Uint32(r[4:])),
			Base: rhumb.Offset(le.Uint64(r[8:])), Time: int64(le.Uint64(r[16:])),
		}
	}
	return p, n, nil
}

// encodedSize checks version and length at the start of b. Later versions only
// append, so they may be longer but never shorter than least.
func encodedSize(what string, b []byte, least int) (int, error) {
	if len(b) < 4 {
		return 0, rhumb.Errorf(rhumb.KindCorrupt, "dedup: %s of %d bytes", what, len(b))
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	switch {
	case b[0] == 0:
		return 0, rhumb.Errorf(rhumb.KindCorrupt, "dedup: %s of version 0", what)
	case n < least || n > MaxEncodedWatermark || n > len(b):
		return 0, rhumb.Errorf(rhumb.KindCorrupt, "dedup: %s of length %d in %d bytes, want at least %d", what, n, len(b), least)
	case b[1]&requiredFlag != 0:
		return 0, rhumb.Errorf(rhumb.KindUnsupported, "dedup: %s of version %d needs a newer reader", what, b[0])
	}
	return n, nil
}
