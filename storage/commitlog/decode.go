package commitlog

import (
	"encoding/binary"
	"errors"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// errNoFrame says that no frame starts here: no magic, or the header's CRC is wrong.
var errNoFrame = errors.New("no frame")

// parseFrameHeader reads the header at the start of b, which holds at least
// frameHeaderSize bytes and, for longer headers, all that can follow. A header with
// a good CRC that this version cannot obey is of kind unsupported.
func parseFrameHeader(b []byte, seed uint32, pos int64) (h frameHeader, err error) {
	if len(b) < frameHeaderSize || string(b[:4]) != frameMagic {
		return h, errNoFrame
	}
	le := binary.LittleEndian
	h.headerLen = int(le.Uint16(b[18:]))
	if h.headerLen < frameHeaderSize || h.headerLen > min(frameHeaderMax, len(b)) ||
		le.Uint32(b[4:]) != frameHeaderCRC(seed, pos, b[:h.headerLen]) {
		return h, errNoFrame
	}
	h.size = int64(le.Uint32(b[8:]))
	h.bodyCRC = le.Uint32(b[12:])
	h.kind = Kind(b[17])
	h.flags = le.Uint32(b[20:])
	h.shard = rhumb.ShardID(le.Uint32(b[24:]))
	count := le.Uint32(b[28:])
	h.mark = Mark{File: le.Uint64(b[32:]), Pos: int64(le.Uint64(b[40:]))}
	h.term, h.vote, h.commit = le.Uint64(b[48:]), le.Uint64(b[56:]), le.Uint64(b[64:])
	extra := le.Uint32(b[72:])
	if h.flags&frameRequiredMax&^frameKnownFlags != 0 || h.kind < KindEntries || h.kind > KindSnapshot {
		return h, rhumb.Errorf(rhumb.KindUnsupported, "commitlog: frame of version %d, kind %d, flags %#x needs a newer reader", b[16], h.kind, h.flags)
	}
	if int64(h.headerLen)+int64(count)*entrySize+int64(extra) > h.size || h.size > MaxFrame {
		return h, errNoFrame
	}
	h.count, h.extraLen = int(count), int(extra)
	return h, nil
}

// row is one entry of a frame's table.
type row []byte

func (r row) index() uint64 { return binary.LittleEndian.Uint64(r) }
func (r row) term() uint64  { return binary.LittleEndian.Uint64(r[8:]) }
func (r row) size() int64   { return int64(binary.LittleEndian.Uint32(r[16:])) }

// row gives entry i of the table at the start of a frame's body.
func (h *frameHeader) row(body []byte, i int) row {
	return row(body[i*entrySize : (i+1)*entrySize])
}

// extra gives the bytes between a frame's table and its data.
func (h *frameHeader) extra(body []byte) []byte {
	from := h.count * entrySize
	to := from + h.extraLen
	return body[from:to:to]
}

// checkBody compares a frame's body with its header and itself.
func (h *frameHeader) checkBody(body []byte) error {
	if int64(len(body)) != h.size-int64(h.headerLen) || codec.Checksum(body) != h.bodyCRC {
		return errors.New("checksum does not match")
	}
	total := int64(h.count*entrySize + h.extraLen)
	for i := range h.count {
		total += h.row(body, i).size()
		if h.kind == KindEntries && i > 0 && h.row(body, i).index() != h.row(body, i-1).index()+1 {
			return errors.New("entries are not in order")
		}
	}
	if total != int64(len(body)) {
		return errors.New("entries do not fill their frame")
	}
	if h.kind == KindSnapshot && h.count != 1 {
		return errors.New("snapshot without its entry")
	}
	return nil
}

// change is what the frame with this checked body does to its shard's state.
func (h *frameHeader) change(body []byte) change {
	c := change{kind: h.kind, shard: h.shard, hardState: h.flags&flagHardState != 0, term: h.term, vote: h.vote, commit: h.commit}
	if h.count > 0 {
		first, last := h.row(body, 0), h.row(body, h.count-1)
		c.first, c.last, c.lastTerm = first.index(), last.index(), last.term()
	}
	if h.kind == KindSnapshot {
		c.conf = slices.Clone(h.extra(body))
	}
	return c
}

// decodeBody checks a frame's body against its header and gives the frame, which
// refers to body, and the place of each entry's data in the given file.
func decodeBody(h *frameHeader, body []byte, file uint64, pos int64) (*Frame, []Location, error) {
	if err := h.checkBody(body); err != nil {
		return nil, nil, err
	}
	f := &Frame{Kind: h.kind, Shard: h.shard, Mark: h.mark}
	if h.flags&flagHardState != 0 {
		f.HardState = &raftpb.HardState{Term: new(h.term), Vote: new(h.vote), Commit: new(h.commit)}
	}
	var locs []Location
	if h.count > 0 {
		f.Entries = make([]*raftpb.Entry, h.count)
		locs = make([]Location, h.count)
	}
	at := int64(h.count*entrySize + h.extraLen)
	for i := range f.Entries {
		r := h.row(body, i)
		size := r.size()
		f.Entries[i] = &raftpb.Entry{Index: new(r.index()), Term: new(r.term()), Type: raftpb.EntryType(r[20]).Enum()}
		if size > 0 {
			f.Entries[i].Data = body[at : at+size : at+size]
		}
		locs[i] = Location{File: file, Pos: pos + int64(h.headerLen) + at, Len: uint32(size)}
		at += size
	}
	var err error
	switch h.kind {
	case KindCheckpoint:
		f.Checkpoint, err = decodeCheckpoint(h.extra(body))
	case KindSnapshot:
		f.Conf = h.extra(body)
	}
	return f, locs, err
}
