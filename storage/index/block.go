package index

import (
	"encoding/binary"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	blockMagic      = 0xB10C
	formatVersion   = 1
	blockHeaderSize = 40
	markSize        = 40

	// MaxBlockRefs bounds the refs of a block: what a look-up decodes at most.
	MaxBlockRefs = 256
	// MaxMarks bounds the lives of a partition: regions times re-creations.
	MaxMarks = 1 << 16
	// MaxBlockSize bounds the length that a reader accepts: all marks and refs.
	MaxBlockSize = blockHeaderSize + MaxMarks*markSize + MaxBlockRefs*9*binary.MaxVarintLen64
)

// Block is the decoded form of a block.
type Block struct {
	Key   Key
	Start Vector // at the block's first ref
	Refs  []Ref  // at least one, by base offset
}

func corruptf(format string, args ...any) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "index: %w", fmt.Errorf(format, args...))
}

func putMarks(b []byte, v Vector) []byte {
	le := binary.LittleEndian
	for i := range v {
		b = append(b, v[i].Source.Life[:]...)
		b = le.AppendUint16(b, uint16(v[i].Source.Region))
		b = append(b, 0, 0, 0, 0, 0, 0)
		b = le.AppendUint64(b, uint64(v[i].Watermark))
		b = le.AppendUint64(b, uint64(v[i].Floor))
	}
	return b
}

// parseMarks reads n marks; the caller has checked that b holds them.
func parseMarks(b []byte, n int) Vector {
	le := binary.LittleEndian
	v := make(Vector, n)
	sources := make([]Source, n)
	for i := range v {
		m := b[i*markSize:]
		sources[i].Region = rhumb.RegionNumber(le.Uint16(m[16:]))
		copy(sources[i].Life[:], m)
		v[i] = Mark{Source: &sources[i], Watermark: rhumb.Offset(le.Uint64(m[24:])), Floor: rhumb.Offset(le.Uint64(m[32:]))}
	}
	return v
}

// AppendBlock encodes the block behind dst. Lives that refs name and the start
// vector lacks are added to it. The refs must be sorted, at least one and at
// most [MaxBlockRefs].
func AppendBlock(dst []byte, blk *Block) []byte {
	le := binary.LittleEndian
	start := blk.Start
	for i := range blk.Refs {
		if start.find(blk.Refs[i].Source) < 0 {
			start = append(start.clone(), Mark{Source: blk.Refs[i].Source, Watermark: rhumb.NoOffset, Floor: rhumb.NoOffset})
		}
	}
	at := len(dst)
	dst = le.AppendUint16(dst, blockMagic)
	dst = append(dst, formatVersion, 0)
	dst = le.AppendUint16(dst, blockHeaderSize)
	dst = le.AppendUint16(dst, uint16(len(blk.Refs)))
	dst = le.AppendUint32(dst, uint32(blk.Key.Shard))
	dst = le.AppendUint32(dst, uint32(len(start)))
	dst = le.AppendUint64(dst, uint64(blk.Key.Partition))
	dst = le.AppendUint64(dst, uint64(blk.Refs[0].Base))
	dst = le.AppendUint64(dst, 0) // length and CRC
	dst = putMarks(dst, start)
	st := newRefState(blk.Refs[0].Base, start)
	for i := range blk.Refs {
		dst = st.put(dst, &blk.Refs[i])
	}
	le.PutUint32(dst[at+32:], uint32(len(dst)-at))
	le.PutUint32(dst[at+36:], codec.Checksum(dst[at:]))
	return dst
}

// refState is what the next ref of a block is relative to.
type refState struct {
	next                rhumb.Offset
	end, raft           uint64
	maxTime, appendTime int64
	marks               Vector // owned: watermarks move with the refs
}

func newRefState(base rhumb.Offset, start Vector) *refState {
	return &refState{next: base, marks: start.clone()}
}

func (st *refState) put(b []byte, r *Ref) []byte {
	m := st.marks.find(r.Source)
	b = binary.AppendUvarint(b, uint64(r.Base-st.next))
	b = binary.AppendUvarint(b, uint64(r.Span-1))
	b = binary.AppendUvarint(b, uint64(r.Size))
	b = binary.AppendVarint(b, int64(r.Pos-st.end))
	b = binary.AppendVarint(b, int64(r.Raft-st.raft))
	b = binary.AppendUvarint(b, uint64(m))
	b = binary.AppendVarint(b, int64(r.First-st.marks[m].Watermark-1))
	b = binary.AppendVarint(b, r.MaxTime-st.maxTime)
	b = binary.AppendVarint(b, r.AppendTime-st.appendTime)
	st.moveTo(r, m)
	return b
}

func (st *refState) moveTo(r *Ref, mark int) {
	st.next, st.end, st.raft = r.Last()+1, r.Pos+uint64(r.Size), r.Raft
	st.maxTime, st.appendTime = r.MaxTime, r.AppendTime
	st.marks[mark].Watermark = r.OriginLast()
}

// get reads the next ref; ok is false if the bytes are not one.
func (st *refState) get(b *varints, file uint64) (r Ref, ok bool) {
	gap, span, size := b.unsigned(), b.unsigned(), b.unsigned()
	pos, raft := b.signed(), b.signed()
	mark, first := b.unsigned(), b.signed()
	maxTime, appendTime := b.signed(), b.signed()
	if b.bad || gap >= 1<<62 || span >= 1<<32-1 || size >= 1<<32 || mark >= uint64(len(st.marks)) {
		return r, false
	}
	r = Ref{
		Base: st.next + rhumb.Offset(gap), Span: uint32(span) + 1, Size: uint32(size),
		First:  st.marks[mark].Watermark + 1 + rhumb.Offset(first),
		Source: st.marks[mark].Source, MaxTime: st.maxTime + maxTime, AppendTime: st.appendTime + appendTime,
		Raft: st.raft + uint64(raft), File: file, Pos: st.end + uint64(pos),
	}
	if r.Base < st.next || r.Last() < r.Base {
		return r, false
	}
	st.moveTo(&r, int(mark))
	return r, true
}

// varints reads varints and remembers that it went bad, so that its user asks once.
type varints struct {
	b   []byte
	bad bool
}

func (v *varints) unsigned() uint64 {
	x, n := binary.Uvarint(v.b)
	return v.take(x, n)
}

func (v *varints) signed() int64 {
	x, n := binary.Varint(v.b)
	return int64(v.take(uint64(x), n))
}

func (v *varints) take(x uint64, n int) uint64 {
	if n <= 0 || v.bad {
		v.bad = true
		return 0
	}
	v.b = v.b[n:]
	return x
}

// ParseBlock decodes the block at the start of b and gives its length. Refs get
// file as their place. Errors are of kind corrupt or unsupported.
func ParseBlock(b []byte, file uint64) (blk *Block, n int, err error) {
	le := binary.LittleEndian
	if len(b) < blockHeaderSize || le.Uint16(b) != blockMagic {
		return nil, 0, corruptf("block: no header in %d bytes", len(b))
	}
	header, refs, marks, size := int(le.Uint16(b[4:])), int(le.Uint16(b[6:])), int64(le.Uint32(b[12:])), int64(le.Uint32(b[32:]))
	switch {
	case b[3] != 0:
		return nil, 0, rhumb.Errorf(rhumb.KindUnsupported, "index: block of version %d, flags %#x needs a newer reader", b[2], b[3])
	case header < blockHeaderSize || refs == 0 || refs > MaxBlockRefs || marks > MaxMarks:
		return nil, 0, corruptf("block: header of %d bytes, %d refs, %d marks", header, refs, marks)
	case size > int64(len(b)) || size < int64(header)+marks*markSize:
		return nil, 0, corruptf("block: length %d does not fit %d bytes", size, len(b))
	}
	b = b[:size]
	crc := codec.ChecksumUpdate(codec.Checksum(b[:36]), []byte{0, 0, 0, 0})
	if codec.ChecksumUpdate(crc, b[40:]) != le.Uint32(b[36:]) {
		return nil, 0, corruptf("block: CRC does not match")
	}
	blk = &Block{Key: Key{rhumb.ShardID(le.Uint32(b[8:])), rhumb.PartitionID(le.Uint64(b[16:]))}}
	blk.Start = parseMarks(b[header:], int(marks))
	st := newRefState(rhumb.Offset(le.Uint64(b[24:])), blk.Start)
	rest := varints{b: b[header+int(marks)*markSize:]}
	blk.Refs = make([]Ref, refs)
	for i := range blk.Refs {
		ref, ok := st.get(&rest, file)
		if !ok {
			return nil, 0, corruptf("block: ref %d of %d is damaged", i, refs)
		}
		blk.Refs[i] = ref
	}
	return blk, int(size), nil
}
