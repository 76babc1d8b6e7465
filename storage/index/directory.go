package index

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	handleSize       = 56
	partHeaderSize   = 80
	shardEndSize     = 24
	handlesHeader    = 8
	directoryHeader  = 8
	maxHandles       = 1 << 22 // bounds a part's blocks: 2^30 batches
	maxDirectorySize = 1 << 30 // far above any real one; memory grows only with bytes that are there
)

// Handle finds one block and says what it holds, so that most look-ups read one block.
type Handle struct {
	Base, Last    rhumb.Offset
	MaxTime       int64
	RetentionTime int64
	Bytes         uint64 // of the batches
	Pos           uint64
	Length        uint32
	Refs          uint32
}

// ShardEnd is how far a shard's Raft log had come when its file ended: no entry
// above Index lives in this file or an older one.
type ShardEnd struct {
	Shard rhumb.ShardID
	Index uint64
	Term  uint64
}

// Directory is the part of a table that memory holds.
type Directory struct {
	Shards []ShardEnd // by shard
	Parts  []*Part    // by key
}

func appendHandles(dst []byte, hs []Handle) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = le.AppendUint32(dst, uint32(len(hs)))
	dst = le.AppendUint32(dst, 0)
	for i := range hs {
		h := &hs[i]
		dst = le.AppendUint64(dst, uint64(h.Base))
		dst = le.AppendUint64(dst, uint64(h.Last))
		dst = le.AppendUint64(dst, uint64(h.MaxTime))
		dst = le.AppendUint64(dst, uint64(h.RetentionTime))
		dst = le.AppendUint64(dst, h.Bytes)
		dst = le.AppendUint64(dst, h.Pos)
		dst = le.AppendUint32(dst, h.Length)
		dst = le.AppendUint32(dst, h.Refs)
	}
	le.PutUint32(dst[at+4:], codec.Checksum(dst[at+handlesHeader:]))
	return dst
}

// ParseHandles decodes a part's handles, which are all of b.
func ParseHandles(b []byte) ([]Handle, error) {
	le := binary.LittleEndian
	if len(b) < handlesHeader {
		return nil, corruptf("handles: %d bytes", len(b))
	}
	n := int64(le.Uint32(b))
	if n == 0 || n > maxHandles || int64(len(b)) != handlesHeader+n*handleSize {
		return nil, corruptf("handles: %d do not fit %d bytes", n, len(b))
	}
	if codec.Checksum(b[handlesHeader:]) != le.Uint32(b[4:]) {
		return nil, corruptf("handles: CRC does not match")
	}
	hs := make([]Handle, n)
	for i := range hs {
		r := b[handlesHeader+i*handleSize:]
		hs[i] = Handle{
			Base: rhumb.Offset(le.Uint64(r)), Last: rhumb.Offset(le.Uint64(r[8:])),
			MaxTime: int64(le.Uint64(r[16:])), RetentionTime: int64(le.Uint64(r[24:])),
			Bytes: le.Uint64(r[32:]), Pos: le.Uint64(r[40:]), Length: le.Uint32(r[48:]), Refs: le.Uint32(r[52:]),
		}
		if hs[i].Length > MaxBlockSize || hs[i].Length < blockHeaderSize || i > 0 && hs[i].Base <= hs[i-1].Last {
			return nil, corruptf("handles: number %d is out of order or of %d bytes", i, hs[i].Length)
		}
	}
	return hs, nil
}

// appendDirectory encodes the directory behind dst; its CRC is in the footer.
func appendDirectory(dst []byte, d *Directory) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(d.Shards)))
	dst = le.AppendUint32(dst, uint32(len(d.Parts)))
	for _, s := range d.Shards {
		dst = le.AppendUint64(dst, uint64(s.Shard)) // and four zero bytes
		dst = le.AppendUint64(dst, s.Index)
		dst = le.AppendUint64(dst, s.Term)
	}
	for _, p := range d.Parts {
		dst = le.AppendUint32(dst, uint32(p.Key.Shard))
		dst = le.AppendUint32(dst, uint32(len(p.Start)))
		dst = le.AppendUint64(dst, uint64(p.Key.Partition))
		dst = le.AppendUint64(dst, uint64(p.Base))
		dst = le.AppendUint64(dst, uint64(p.Last))
		dst = le.AppendUint64(dst, uint64(p.MaxTime))
		dst = le.AppendUint64(dst, uint64(p.RetentionTime))
		dst = le.AppendUint64(dst, p.Bytes)
		dst = le.AppendUint64(dst, p.Batches)
		dst = le.AppendUint64(dst, p.handlesPos)
		dst = le.AppendUint64(dst, uint64(p.handlesLen)) // and four zero bytes
		dst = putMarks(dst, p.Start)
		dst = putMarks(dst, p.End)
	}
	return dst
}

// ParseDirectory decodes a directory, which is all of b. The parts do not belong
// to a table yet.
func ParseDirectory(b []byte) (*Directory, error) {
	le := binary.LittleEndian
	if len(b) < directoryHeader {
		return nil, corruptf("directory: %d bytes", len(b))
	}
	shards, parts := int64(le.Uint32(b)), int64(le.Uint32(b[4:]))
	rest := b[directoryHeader:]
	if shards*shardEndSize+parts*partHeaderSize > int64(len(rest)) {
		return nil, corruptf("directory: %d shards and %d parts do not fit %d bytes", shards, parts, len(b))
	}
	d := &Directory{Shards: make([]ShardEnd, shards), Parts: make([]*Part, 0, parts)}
	for i := range d.Shards {
		d.Shards[i] = ShardEnd{rhumb.ShardID(le.Uint32(rest)), le.Uint64(rest[8:]), le.Uint64(rest[16:])}
		rest = rest[shardEndSize:]
	}
	for i := range parts {
		p, n, err := parsePart(rest)
		if err != nil {
			return nil, err
		}
		if i > 0 && d.Parts[i-1].Key.Compare(p.Key) >= 0 {
			return nil, corruptf("directory: part %d is out of order", i)
		}
		rest = rest[n:]
		d.Parts = append(d.Parts, p)
	}
	if len(rest) != 0 {
		return nil, corruptf("directory: %d bytes too many", len(rest))
	}
	return d, nil
}

func parsePart(b []byte) (*Part, int, error) {
	le := binary.LittleEndian
	if len(b) < partHeaderSize {
		return nil, 0, corruptf("directory: part of %d bytes", len(b))
	}
	marks := int64(le.Uint32(b[4:]))
	n := partHeaderSize + 2*marks*markSize
	if marks > MaxMarks || n > int64(len(b)) {
		return nil, 0, corruptf("directory: part with %d marks does not fit %d bytes", marks, len(b))
	}
	p := &Part{
		Key:  Key{rhumb.ShardID(le.Uint32(b)), rhumb.PartitionID(le.Uint64(b[8:]))},
		Base: rhumb.Offset(le.Uint64(b[16:])), Last: rhumb.Offset(le.Uint64(b[24:])),
		MaxTime: int64(le.Uint64(b[32:])), RetentionTime: int64(le.Uint64(b[40:])),
		Bytes: le.Uint64(b[48:]), Batches: le.Uint64(b[56:]),
		handlesPos: le.Uint64(b[64:]), handlesLen: le.Uint32(b[72:]),
		Start: parseMarks(b[partHeaderSize:], int(marks)),
		End:   parseMarks(b[partHeaderSize+marks*markSize:], int(marks)),
	}
	if p.Last < p.Base || p.handlesLen > handlesHeader+maxHandles*handleSize {
		return nil, 0, corruptf("directory: part from %d to %d with %d bytes of handles", p.Base, p.Last, p.handlesLen)
	}
	return p, int(n), nil
}
