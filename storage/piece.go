package storage

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A snapshot travels, and is written to the follower's log, in pieces. Integers
// are little-endian.
//
//	 0  uint8  magic, 0x5A
//	 1  uint8  version, 1
//	 2  uint16 header length, 16
//	 4  uint32 number of the piece, from 0
//	 8  uint32 number of items
//	12  uint32 CRC32C of all that follows the header
//	16  items: uint8 kind, uint8 flags, uint16 zero, uint32 length, then
//	      1 partition  uint64 partition, int64 log start; with flag 1 int64 holes: below
//	                   this offset compaction made holes, all batches follow, and those
//	                   that the reader has do not count any more
//	      2 pair       uint32 length of the key, key, value
//	      3 batch      uint64 partition, uint64 raft index, int64 max timestamp,
//	                   envelope and batch
//
// All partitions come before the batches, a partition's batches in offset order.
// A reader skips kinds above 127 that it does not know and refuses others, and flags.
const (
	pieceMagic      = 0x5A
	pieceVersion    = 1
	pieceHeaderSize = 16
	itemHeaderSize  = 8
	batchItemSize   = 24

	itemPartition = 1
	itemPair      = 2
	itemBatch     = 3
	itemOptional  = 128

	flagHoles = 1 // of a partition

	// pieceSize is where a piece ends; one item may make it longer.
	pieceSize = 1 << 20
	// maxPieceSize bounds what a reader accepts: one stored batch and then some.
	maxPieceSize = codec.MaxBatchSize + 2*pieceSize
)

// pieceWriter builds one piece at a time.
type pieceWriter struct {
	number uint32
	items  uint32
	buf    []byte
}

func (w *pieceWriter) begin(kind byte, length int) {
	if len(w.buf) == 0 {
		w.buf = make([]byte, pieceHeaderSize, pieceSize+pieceSize/8)
	}
	w.buf = append(w.buf, kind, 0, 0, 0)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(length))
	w.items++
}

func (w *pieceWriter) partition(id rhumb.PartitionID, start, holes rhumb.Offset) {
	if holes > 0 {
		w.begin(itemPartition, 24)
		w.buf[len(w.buf)-itemHeaderSize+1] = flagHoles
	} else {
		w.begin(itemPartition, 16)
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(id))
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(start))
	if holes > 0 {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(holes))
	}
}

func (w *pieceWriter) pair(key, value []byte) {
	w.begin(itemPair, 4+len(key)+len(value))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(key)))
	w.buf = append(append(w.buf, key...), value...)
}

func (w *pieceWriter) batch(id rhumb.PartitionID, raft uint64, maxTime int64, b []byte) {
	w.begin(itemBatch, batchItemSize+len(b))
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(id))
	w.buf = binary.LittleEndian.AppendUint64(w.buf, raft)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(maxTime))
	w.buf = append(w.buf, b...)
}

func (w *pieceWriter) full() bool { return len(w.buf) >= pieceSize }

// finish gives the piece, which belongs to the caller; nil if nothing was added.
func (w *pieceWriter) finish() []byte {
	if w.items == 0 {
		return nil
	}
	b := w.buf
	le := binary.LittleEndian
	b[0], b[1] = pieceMagic, pieceVersion
	le.PutUint16(b[2:], pieceHeaderSize)
	le.PutUint32(b[4:], w.number)
	le.PutUint32(b[8:], w.items)
	le.PutUint32(b[12:], codec.Checksum(b[pieceHeaderSize:]))
	w.number++
	w.items, w.buf = 0, nil
	return b
}

// item is a decoded item of a piece; its slices refer to the piece.
type item struct {
	kind      byte
	partition rhumb.PartitionID
	start     rhumb.Offset // of a partition
	holes     rhumb.Offset // of a partition
	key       []byte
	value     []byte
	raft      uint64
	maxTime   int64
	envelope  codec.Envelope
	base      rhumb.Offset
	bytes     []byte // envelope and batch
	at        int    // where bytes begin in the piece
}

func pieceError(format string, args ...any) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "storage: snapshot piece: "+format, args...)
}

// parsePiece checks a piece and calls fn with its items.
func parsePiece(b []byte, fn func(*item) error) (number uint32, err error) {
	le := binary.LittleEndian
	if len(b) < pieceHeaderSize || len(b) > maxPieceSize || b[0] != pieceMagic {
		return 0, pieceError("no header in %d bytes", len(b))
	}
	header, items := int(le.Uint16(b[2:])), le.Uint32(b[8:])
	number = le.Uint32(b[4:])
	if header < pieceHeaderSize || header > len(b) || codec.Checksum(b[header:]) != le.Uint32(b[12:]) {
		return 0, pieceError("CRC does not match")
	}
	at := header
	for range items {
		if len(b)-at < itemHeaderSize {
			return 0, pieceError("ends within an item")
		}
		kind, flags, size := b[at], b[at+1], int64(le.Uint32(b[at+4:]))
		at += itemHeaderSize
		if size > int64(len(b)-at) {
			return 0, pieceError("item of %d bytes does not fit", size)
		}
		it, err := parseItem(kind, flags, b[at:at+int(size)])
		if err != nil {
			return 0, err
		}
		if it != nil {
			it.at = at + batchItemSize
			if err := fn(it); err != nil {
				return 0, err
			}
		}
		at += int(size)
	}
	if at != len(b) {
		return 0, pieceError("%d bytes too many", len(b)-at)
	}
	return number, nil
}

// parseItem decodes one item, nil if it may be skipped.
func parseItem(kind, flags byte, b []byte) (*item, error) {
	le := binary.LittleEndian
	it := &item{kind: kind}
	switch {
	case kind >= itemOptional:
		return nil, nil
	case flags != 0 && (flags != flagHoles || kind != itemPartition || len(b) < 24) || kind == 0 || kind > itemBatch:
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "storage: snapshot item of kind %d, flags %#x needs a newer reader", kind, flags)
	case kind == itemPartition && len(b) >= 16:
		it.partition, it.start = rhumb.PartitionID(le.Uint64(b)), rhumb.Offset(le.Uint64(b[8:]))
		if flags == flagHoles {
			it.holes = rhumb.Offset(le.Uint64(b[16:]))
		}
		return it, nil
	case kind == itemPair && len(b) >= 4 && int64(le.Uint32(b)) <= int64(len(b)-4):
		n := 4 + le.Uint32(b)
		it.key, it.value = b[4:n], b[n:]
		return it, nil
	case kind == itemBatch && len(b) >= batchItemSize:
		it.partition, it.raft, it.maxTime = rhumb.PartitionID(le.Uint64(b)), le.Uint64(b[8:]), int64(le.Uint64(b[16:]))
		it.bytes = b[batchItemSize:]
		e, batch, n, err := codec.ParseEnvelope(it.bytes)
		if err != nil {
			return nil, err
		}
		it.envelope, it.base = e, rhumb.Offset(binary.BigEndian.Uint64(batch))
		if n != len(it.bytes) || e.Partition != it.partition || e.Last < e.First || e.Last-e.First >= 1<<31 {
			return nil, pieceError("batch of %d bytes does not fit its envelope", len(it.bytes))
		}
		return it, nil
	}
	return nil, pieceError("item of kind %d and %d bytes", kind, len(b))
}
