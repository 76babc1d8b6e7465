package commitlog

import (
	"encoding/binary"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Kind says what a frame is. Values are stored.
type Kind uint8

// The kinds of frames.
const (
	// KindEntries persists hard state, entries, or both.
	KindEntries Kind = 1
	// KindCheckpoint starts each file; the log writes it itself.
	KindCheckpoint Kind = 2
	// KindSnapshotData holds pieces of a snapshot, one per entry, each with the
	// snapshot's index and term. It means nothing without a later KindSnapshot.
	KindSnapshotData Kind = 3
	// KindSnapshot makes a snapshot count: exactly one entry with its index, term and
	// any data; Conf is its configuration. It cancels all of the shard's entries.
	KindSnapshot Kind = 4
)

// String gives the kind's word.
func (k Kind) String() string {
	switch k {
	case KindEntries:
		return "entries"
	case KindCheckpoint:
		return "checkpoint"
	case KindSnapshotData:
		return "snapshot-data"
	case KindSnapshot:
		return "snapshot"
	}
	return "unknown"
}

// Frame is what one shard persists in one go.
type Frame struct {
	Kind  Kind
	Shard rhumb.ShardID
	// HardState is the shard's new hard state, nil if it stays.
	HardState *raftpb.HardState
	// Entries in order of index, without holes.
	Entries []*raftpb.Entry
	// Conf is the marshalled conf state of a KindSnapshot.
	Conf []byte
	// Flushed, if set, is called once, after done, when the frame is really on disk,
	// whatever the durability; or with the error that ended the log. It runs on the
	// log's goroutine and must not block.
	Flushed func(err error)

	// Mark and Checkpoint are set by reading only.
	Mark       Mark
	Checkpoint []ShardState
}

const (
	frameMagic      = "RLF1"
	frameVersion    = 1
	frameHeaderSize = 80
	frameHeaderMax  = 1024
	entrySize       = 24
	frameAlign      = 8

	flagHardState    uint32 = 1
	frameKnownFlags         = flagHardState
	frameRequiredMax uint32 = 0xffff0000 // bits that a reader must know

	// MaxFrame bounds a frame in bytes.
	MaxFrame = 1 << 30
)

// aligned rounds a length up to where the next frame may start.
func aligned(n int64) int64 { return (n + frameAlign - 1) &^ (frameAlign - 1) }

// frameHeader is the fixed part of a frame.
type frameHeader struct {
	size      int64 // bytes without padding
	bodyCRC   uint32
	kind      Kind
	headerLen int
	flags     uint32
	shard     rhumb.ShardID
	count     int
	mark      Mark
	term      uint64
	vote      uint64
	commit    uint64
	extraLen  int
}

// put writes the header into b, for a frame at pos of the file of seed.
func (h *frameHeader) put(b []byte, seed uint32, pos int64) {
	b = b[:frameHeaderSize]
	le := binary.LittleEndian
	copy(b, frameMagic)
	le.PutUint32(b[8:], uint32(h.size))
	le.PutUint32(b[12:], h.bodyCRC)
	b[16], b[17] = frameVersion, byte(h.kind)
	le.PutUint16(b[18:], frameHeaderSize)
	le.PutUint32(b[20:], h.flags)
	le.PutUint32(b[24:], uint32(h.shard))
	le.PutUint32(b[28:], uint32(h.count))
	le.PutUint64(b[32:], h.mark.File)
	le.PutUint64(b[40:], uint64(h.mark.Pos))
	le.PutUint64(b[48:], h.term)
	le.PutUint64(b[56:], h.vote)
	le.PutUint64(b[64:], h.commit)
	le.PutUint32(b[72:], uint32(h.extraLen))
	le.PutUint32(b[76:], 0)
	le.PutUint32(b[4:], frameHeaderCRC(seed, pos, b))
}

func frameHeaderCRC(seed uint32, pos int64, header []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(pos))
	return codec.ChecksumUpdate(codec.ChecksumUpdate(seed, at[:]), header[8:])
}

// encoded is a frame ready to be placed: its header as a value, its body as head
// (table, extra, small data) and data (slices that are not copied).
type encoded struct {
	frameHeader
	head []byte
	data [][]byte
}

// copyBelow is the size up to which an entry's data is copied beside the table:
// cheaper than a vector of its own.
const copyBelow = 1024

// encode fills e from f, reusing its buffers, and hashes the body.
func (e *encoded) encode(f *Frame, extra []byte) error {
	e.frameHeader = frameHeader{kind: f.Kind, shard: f.Shard, count: len(f.Entries), extraLen: len(extra)}
	e.headerLen = frameHeaderSize
	if f.HardState != nil {
		e.flags |= flagHardState
		e.term, e.vote, e.commit = f.HardState.GetTerm(), f.HardState.GetVote(), f.HardState.GetCommit()
	}
	e.head, e.data = e.head[:0], e.data[:0]
	size := int64(frameHeaderSize) + int64(len(extra))
	total := 0
	for _, ent := range f.Entries {
		size += entrySize + int64(len(ent.GetData()))
		total += len(ent.GetData())
		if size > MaxFrame {
			return ErrTooLarge
		}
		e.head = appendEntry(e.head, ent)
	}
	e.size = size
	e.head = append(e.head, extra...)
	small := total <= copyBelow*max(1, len(f.Entries))
	for _, ent := range f.Entries {
		switch data := ent.GetData(); {
		case small:
			e.head = append(e.head, data...)
		case len(data) > 0:
			e.data = append(e.data, data)
		}
	}
	e.bodyCRC = codec.Checksum(e.head)
	for _, d := range e.data {
		e.bodyCRC = codec.ChecksumUpdate(e.bodyCRC, d)
	}
	return nil
}

func appendEntry(b []byte, ent *raftpb.Entry) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, ent.GetIndex())
	b = le.AppendUint64(b, ent.GetTerm())
	b = le.AppendUint32(b, uint32(len(ent.GetData())))
	return append(b, byte(ent.GetType()), 0, 0, 0)
}

// check refuses frames whose meaning would be unclear.
func (f *Frame) check() error {
	switch f.Kind {
	case KindEntries:
		for i := 1; i < len(f.Entries); i++ {
			if f.Entries[i].GetIndex() != f.Entries[i-1].GetIndex()+1 {
				return ErrInvalidFrame
			}
		}
	case KindSnapshot:
		if len(f.Entries) != 1 {
			return ErrInvalidFrame
		}
	case KindSnapshotData:
	default:
		return ErrInvalidFrame
	}
	if len(f.Conf) > 0 && f.Kind != KindSnapshot {
		return ErrInvalidFrame
	}
	return nil
}
