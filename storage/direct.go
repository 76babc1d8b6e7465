package storage

import (
	"bytes"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/index"
)

const (
	// directShare is the least part that a read must take of the blocks that it touches to go
	// past the page cache: of a few small batches here and there no whole blocks are read.
	directShare = 8
)

// readBlocks is the source of the cache of blocks.
func (s *Store) readBlocks(file uint64, off int64, bufs [][]byte) (int64, error) {
	return s.log.ReadDirect(file, off, bufs)
}

// readAhead has the disk begin with the batches of log files that raw does not have, and
// tells which of refs are to be looked for in the cache of blocks, nil for none. Others
// the system is asked to have in memory; what was written past its cache is not there.
func (s *Store) readAhead(refs []index.Ref, raw [][]byte) (direct []bool) {
	for i := 0; i < len(refs); {
		if raw[i] != nil || isSegment(refs[i].File) {
			i++
			continue
		}
		end, size := i, uint64(0)
		for ; end < len(refs) && raw[end] == nil && refs[end].File == refs[i].File && refs[end].Pos >= refs[i].Pos; end++ {
			size += uint64(refs[end].Size)
		}
		last := &refs[end-1]
		from, to := refs[i].Pos, last.Pos+uint64(last.Size)
		if s.blocksAhead(refs[i].File, int64(from), int64(to), int64(size)) {
			if direct == nil {
				direct = make([]bool, len(refs))
			}
			for k := i; k < end; k++ {
				direct[k] = true
			}
		} else {
			for k := i; k < end; k++ {
				s.log.Ahead(refs[k].File, int64(refs[k].Pos), int64(refs[k].Pos)+int64(refs[k].Size))
			}
		}
		i = end
	}
	return direct
}

// blocksAhead is false if size bytes of a part of a file are not to be had from the cache
// of blocks.
func (s *Store) blocksAhead(file uint64, from, to, size int64) bool {
	if s.blocks == nil {
		return false
	}
	end := s.log.Fixed(file)
	touched := min(end, (to+blocks.Size-1)&^(blocks.Size-1)) - from&^(blocks.Size-1)
	if to > end || size*directShare < touched {
		return false
	}
	return s.blocks.Ahead(file, from, to, end, file+1, s.log.Fixed(file+1))
}

// runFromBlocks is readRun by way of the cache of blocks; it is false where that does not
// have whole batches.
func (s *Store) runFromBlocks(p rhumb.PartitionID, refs []index.Ref, raw [][]byte) bool {
	first, last := &refs[0], &refs[len(refs)-1]
	from, to := int64(first.Pos), int64(last.Pos)+int64(last.Size)
	data, held, ok := s.blocks.Get(first.File, from, to, blocks.Short)
	if !ok {
		return false
	}
	buf := bytes.Join(data, nil) // which, unlike make, does not clear what it fills
	blocks.Release(held)
	if _, err := openRun(p, refs, raw, buf); err != nil {
		s.distrust(first.File)
		clear(raw)
		return false
	}
	return true
}

// distrust drops a file's blocks of which one has a batch that is not whole: the file
// itself decides if it is.
func (s *Store) distrust(file uint64) { s.blocks.Forget(file) }

// placeInBlocks gives a batch by its place in the cache of blocks; it is false where that
// does not have it whole. Its CRC is compared as that of one in a file.
func (s *Store) placeInBlocks(p rhumb.PartitionID, r *index.Ref, use blocks.Use) (Stored, bool) {
	data, held, ok := s.blocks.Get(r.File, int64(r.Pos), int64(r.Pos)+int64(r.Size), use)
	if !ok {
		return Stored{}, false
	}
	e, data, err := s.openPieces(p, r, data)
	if err != nil {
		blocks.Release(held)
		s.distrust(r.File)
		return Stored{}, false
	}
	size := 0
	for _, d := range data {
		size += len(d)
	}
	return Stored{Base: r.Base, Envelope: e, Place: &Place{size: size, memory: data, held: held}}, true
}

// openPieces checks a batch that is in pieces, and gives the pieces without its envelope.
func (s *Store) openPieces(p rhumb.PartitionID, r *index.Ref, data [][]byte) (e codec.Envelope, batch [][]byte, err error) {
	const most = codec.MaxEnvelopeSize + codec.BatchHeaderSize
	head := data[0]
	if len(head) < most && len(data) > 1 {
		head = make([]byte, 0, most)
		for _, d := range data {
			head = append(head, d[:min(len(d), most-len(head))]...)
		}
	}
	e, at, err := r.OpenHead(p, head)
	if err != nil {
		return e, nil, err
	}
	batch = cutFront(data, at)
	if s.checked.has(r.File, r.Pos) {
		return e, batch, nil
	}
	crc := uint32(0)
	for i, d := range cutFront(batch, codec.BatchCRCStart) {
		if i == 0 {
			crc = codec.Checksum(d)
		} else {
			crc = codec.ChecksumUpdate(crc, d)
		}
	}
	if err := r.CheckCRC(head[at:at+codec.BatchHeaderSize], crc); err != nil {
		return e, nil, err
	}
	s.checked.add(r.File, r.Pos)
	return e, batch, nil
}

// cutFront gives pieces without their first n bytes.
func cutFront(data [][]byte, n int) [][]byte {
	for len(data) > 0 && n >= len(data[0]) {
		data, n = data[1:], n-len(data[0])
	}
	if n == 0 || len(data) == 0 {
		return data
	}
	out := append(make([][]byte, 0, len(data)), data...)
	out[0] = out[0][n:]
	return out
}
