package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// MinPlace is the size, with its envelope, from which on a batch can be given by its
// place: for smaller ones the calls cost about what the copy does (docs/trials.md).
const MinPlace = 16 << 10

// Place is where a whole batch lies in a file, in the form in which it goes to a
// client. It holds no memory to speak of. The file stays as it is, removed or not, until
// Release; what the kernel was handed of it before that, stays as it is for good. Or the
// batch lies in blocks of the file that are in memory, which are not used again until
// Release.
type Place struct {
	file *placedFile
	pos  int64
	size int

	memory [][]byte // instead of a file
	held   []*blocks.Block
}

// placedFile is a file that places refer to.
type placedFile struct {
	vfs.File
	uses atomic.Int32
	free func()
}

func (f *placedFile) release() {
	if f.uses.Add(-1) == 0 {
		f.free()
	}
}

// PlaceIn makes a place of size bytes at pos in a file; free is called by Release.
func PlaceIn(f vfs.File, pos int64, size int, free func()) *Place {
	p := &Place{file: &placedFile{File: f, free: free}, pos: pos, size: size}
	p.file.uses.Add(1)
	return p
}

// Size is the batch's length in bytes.
func (p *Place) Size() int { return p.size }

// ReadAt reads the batch's bytes from off on, as io.ReaderAt does. They are not
// checked again: what was given as a place was checked when it was given, or within
// the hour before.
func (p *Place) ReadAt(b []byte, off int64) (int, error) {
	if p.memory != nil && off >= 0 {
		return p.readMemory(b, off)
	}
	if off < 0 || off > int64(p.size) {
		return 0, rhumb.Errorf(rhumb.KindInvalid, "storage: read at %d of a batch of %d bytes", off, p.size)
	}
	if rest := int64(p.size) - off; int64(len(b)) > rest {
		n, err := p.file.ReadAt(b[:rest], p.pos+off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return p.file.ReadAt(b, p.pos+off)
}

func (p *Place) readMemory(b []byte, off int64) (n int, err error) {
	for _, m := range cutFront(p.memory, int(min(off, int64(p.size)))) {
		n += copy(b[n:], m)
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Memory gives the batch's bytes, in pieces, if they are in memory, else nil. They must
// not be changed, nor used after Release.
func (p *Place) Memory() [][]byte { return p.memory }

// Conn gives the system's file and the batch's position in it, for calls that let the
// kernel read; false if the file is none of the system's.
func (p *Place) Conn() (conn syscall.RawConn, pos int64, ok bool) {
	if p.file == nil {
		return nil, 0, false
	}
	c, ok := p.file.File.(syscall.Conn)
	if !ok {
		return nil, 0, false
	}
	conn, err := c.SyscallConn()
	return conn, p.pos, err == nil
}

// Release lets go of the file or the memory; the place is not used any more.
func (p *Place) Release() {
	if p.file == nil {
		blocks.Release(p.held)
		return
	}
	p.file.release()
}

// share pins a file for places; errRetry says that it is gone.
func (s *Store) share(id uint64) (*placedFile, error) {
	f := &placedFile{}
	f.uses.Add(1)
	if isSegment(id) {
		seg, err := s.segments.pin(id, func() (vfs.File, error) { return s.cfg.FS.Open(s.path(segmentDir, segmentName(id))) })
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errRetry
		}
		if err != nil {
			return nil, err
		}
		f.File, f.free = seg.file, func() { s.segments.unpin(seg) }
		return f, nil
	}
	file, release, err := s.log.Share(id)
	if errors.Is(err, commitlog.ErrRemoved) {
		return nil, errRetry
	}
	if err != nil {
		return nil, err
	}
	f.File, f.free = file, release
	return f, nil
}

// placer gives batches of one read by their place.
type placer struct {
	store *Store
	files map[uint64]*placedFile // held until done
}

// open gives the batch of a ref that names a file.
func (w *placer) open(p rhumb.PartitionID, r *index.Ref) (Stored, error) {
	f := w.files[r.File]
	if f == nil {
		var err error
		if f, err = w.store.share(r.File); err != nil {
			return Stored{}, err
		}
		if w.files == nil {
			w.files = map[uint64]*placedFile{}
		}
		w.files[r.File] = f
	}
	e, at, err := w.store.checkPlaced(f, p, r)
	if err != nil {
		return Stored{}, fmt.Errorf("file %016x at %d: %w", r.File, r.Pos, err)
	}
	f.uses.Add(1)
	place := &Place{file: f, pos: int64(r.Pos) + int64(at), size: int(r.Size) - at}
	return Stored{Base: r.Base, Envelope: e, Place: place}, nil
}

// done lets go of the files; places hold them on their own.
func (w *placer) done() {
	for _, f := range w.files {
		f.release()
	}
}

// checkPlaced reads the envelope at a ref's place and the batch's header, and tells
// where the batch begins. The batch's own CRC is checked, in a small buffer, unless
// that was done not long ago.
func (s *Store) checkPlaced(f io.ReaderAt, p rhumb.PartitionID, r *index.Ref) (e codec.Envelope, at int, err error) {
	buf := checkBuffers.Get().(*[checkBuffer]byte)
	defer checkBuffers.Put(buf)
	known := s.checked.has(r.File, r.Pos)
	n := min(checkBuffer, int(r.Size))
	if known {
		n = min(codec.MaxEnvelopeSize+codec.BatchHeaderSize, n)
	}
	if err := readFull(f, buf[:n], int64(r.Pos)); err != nil {
		return e, 0, err
	}
	e, at, err = r.OpenHead(p, buf[:n])
	if err != nil || known {
		return e, at, err
	}
	head := [codec.BatchHeaderSize]byte(buf[at:])
	crc := codec.Checksum(buf[at+codec.BatchCRCStart : n])
	for pos := n; pos < int(r.Size); pos += n {
		n = min(checkBuffer, int(r.Size)-pos)
		if err := readFull(f, buf[:n], int64(r.Pos)+int64(pos)); err != nil {
			return e, 0, err
		}
		crc = codec.ChecksumUpdate(crc, buf[:n])
	}
	if err := r.CheckCRC(head[:], crc); err != nil {
		return e, 0, err
	}
	s.checked.add(r.File, r.Pos)
	return e, at, nil
}

// checkBuffer fits into a core's cache.
const checkBuffer = 128 << 10

var checkBuffers = sync.Pool{New: func() any { return new([checkBuffer]byte) }}

func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
