package commitlog

import (
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	// fillSize is how much is filled with zeros at a time.
	fillSize = 1 << 20
	// maxFillPause bounds the pause after that.
	maxFillPause = 50 * time.Millisecond
)

var fillZeros [fillSize]byte

// prepState is the next file, made before it is needed. Under Log.mu.
type prepState struct {
	wanted  bool
	busy    bool
	filling bool // zeros are being written to ready: it must not be taken
	ready   *prepared
}

// prepared is a file that has its name and its space, but nothing of ours in it.
type prepared struct {
	id   uint64
	file vfs.File
	// fresh: its space is reserved, and was never written to.
	fresh bool
	// syncing: fill flushes its zeros, for which the writer does not wait. Under Log.mu.
	syncing bool
	pinned  *logFile // what it has become meanwhile, pinned until that flush is over
}

// wantPrepared wakes the preparer if there is no next file yet; mu is held.
func (l *Log) wantPrepared() {
	p := &l.prep
	if p.ready == nil && !p.busy && !p.wanted {
		p.wanted = true
		l.prepCond.Broadcast()
	}
}

// prepareLoop makes the next file when it is wanted. If that fails, rotate tries
// again and reports.
func (l *Log) prepareLoop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for !l.prep.wanted && l.err == nil && !l.writerDone {
			l.prepCond.Wait()
		}
		if l.err != nil || l.writerDone {
			return
		}
		l.prep.wanted, l.prep.busy = false, true
		id, active := l.w.nextID, l.w.active() // change only in rotate, which waits while busy
		l.mu.Unlock()
		p, err := l.prepare(id, active)
		l.mu.Lock()
		l.prep.busy = false
		if err == nil {
			l.prep.ready = p
		}
		l.prepCond.Broadcast()
		if err == nil && p.fresh && l.cfg.Durability == Fsync {
			l.fill(p)
		}
	}
}

// fill writes zeros to a file that is ready, from its start on, until it is taken; mu
// is held. Space that was reserved and never written costs each flush metadata, and where
// the file system has a journal a commit, for which others' changes have to be
// written, too; what lies over zeros costs neither. It takes a tenth of the time, so that a log
// that is in a hurry does not wait for it.
func (l *Log) fill(p *prepared) {
	for pos := int64(0); pos < l.cfg.FileSize; pos += fillSize {
		soon := l.writtenEnd.Pos > l.cfg.FileSize/8*7 // the writer must not find it busy
		if l.prep.ready != p || soon || l.err != nil || l.writerDone {
			return
		}
		l.prep.filling = true
		l.mu.Unlock()
		start := time.Now()
		_, err := p.file.WriteAt(fillZeros[:min(fillSize, l.cfg.FileSize-pos)], pos)
		l.mu.Lock()
		l.prep.filling = false
		l.prepCond.Broadcast()
		if err != nil {
			return // for speed only, as reserving is
		}
		p.syncing = true
		l.mu.Unlock()
		// The file may be in use by now. What this flush is told of failures, no other
		// one is told again.
		if err := p.file.Sync(); err != nil {
			l.fail(err)
		}
		l.filled(p)
		time.Sleep(min(9*time.Since(start), maxFillPause))
		l.mu.Lock()
	}
}

// filled lets go of a file whose zeros are flushed.
func (l *Log) filled(p *prepared) {
	l.mu.Lock()
	f := p.pinned
	p.syncing, p.pinned = false, nil
	l.mu.Unlock()
	if f != nil {
		l.files.unpin(f)
	}
}

// prepare makes file id, out of a spare one if there is one, and makes its name
// safe: nothing in it can be promised otherwise. Then it notes that the file, and the
// active one before it, are there.
func (l *Log) prepare(id, active uint64) (*prepared, error) {
	path := l.files.path(id)
	spare, ok := l.files.takeSpare()
	if ok {
		if err := l.cfg.FS.Rename(spare, path); err != nil {
			return nil, err
		}
	}
	f, err := l.cfg.FS.OpenReadWrite(path)
	if err != nil {
		return nil, err
	}
	// Reserving space is for speed. On a full disk the writes themselves decide.
	err = f.Allocate(l.cfg.FileSize)
	fresh := !ok && err == nil
	if err == nil || errors.Is(err, syscall.ENOSPC) {
		err = l.cfg.FS.SyncDir(filepath.Clean(l.cfg.Dir))
	}
	if err == nil {
		err = l.setNewest(id, active)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &prepared{id: id, file: f, fresh: fresh}, nil
}

// takePrepared gives the next file.
func (l *Log) takePrepared() (*prepared, error) {
	l.mu.Lock()
	for l.prep.busy || l.prep.filling {
		l.prepCond.Wait()
	}
	p := l.prep.ready
	l.prep.ready, l.prep.wanted = nil, false
	id := l.w.nextID
	l.mu.Unlock()
	if p != nil {
		return p, nil
	}
	return l.prepare(id, l.w.active())
}

// rotate ends the active file and starts the next with its header and a checkpoint
// of all frames placed so far.
func (l *Log) rotate(mark Mark) error {
	w := &l.w
	if w.file != nil {
		if err := l.writeVec(); err != nil {
			return err
		}
		w.handle.EndTail()
		l.files.deactivate(w.file)
		w.tail = Mark{File: w.file.id, Pos: w.pos}
	}
	p, err := l.takePrepared()
	if err != nil {
		return err
	}
	h := fileHeader{id: p.id, salt: l.cfg.newSalt(), prev: w.tail}
	l.mu.Lock()
	w.nextID = p.id + 1
	l.mu.Unlock()
	w.handle, w.seed = p.file, h.seed()
	w.file = l.files.activate(p.id, w.tail.File, p.file)
	l.mu.Lock()
	if p.syncing {
		p.pinned, err = l.files.pin(p.id)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}

	var e encoded
	if err := e.encode(&Frame{Kind: KindCheckpoint}, appendCheckpoint(nil, l.states.list())); err != nil {
		return err
	}
	e.mark = mark
	block := h.block()
	frame := make([]byte, frameHeaderSize, aligned(e.size))
	e.put(frame, w.seed, framesStart)
	frame = append(frame, e.head...)
	w.pos = framesStart + aligned(e.size)
	w.firstFrame = w.pos
	w.vecAt = w.pos
	if err := l.write(0, [][]byte{block, frame[:aligned(e.size)]}); err != nil {
		return err
	}
	l.files.record(w.file, w.pos, framesStart, nil)
	return nil
}
