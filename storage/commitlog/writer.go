package commitlog

import (
	"slices"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// writer is what the writer goroutine owns.
type writer struct {
	file   *logFile // active; nil until the first frame
	handle vfs.File
	seed   uint32
	pos    int64 // where the next frame goes
	// firstFrame is where the frames behind the checkpoint begin: a file that has only
	// that takes even a frame that is larger than a file should be.
	firstFrame int64
	tail       Mark // end of the last frame of the file before the active one
	nextID     uint64
	endFile    uint64 // is to have no more frames; of Log.endFile when the round began

	// Reused from round to round.
	arena   []byte   // headers, tables, small data, padding
	run     int      // where the part of arena that is not in vec yet starts
	vec     [][]byte // for one write
	vecAt   int64    // where it goes
	changes []change // of the frames in vec
}

// active is the file that is written to, or was the last one: 0 if there is none.
func (w *writer) active() uint64 {
	if w.file != nil {
		return w.file.id
	}
	return w.tail.File
}

// writeLoop takes what is queued and writes it, round after round.
func (l *Log) writeLoop() {
	defer l.writerEnds()
	for {
		mark, ok := l.takeRound()
		if !ok {
			return
		}
		if err := l.writeRound(l.writing, mark); err != nil {
			l.fail(err)
			return
		}
		l.mu.Lock()
		last := l.writing[len(l.writing)-1]
		l.writtenSeq = last.seq
		l.writtenEnd = Mark{File: l.w.file.id, Pos: l.w.pos}
		l.written = append(l.written, l.writing...)
		l.ahead++
		for _, r := range l.writing {
			l.aheadBytes += aligned(r.size)
		}
		clear(l.writing)
		l.writing = l.writing[:0]
		if l.w.pos > l.cfg.FileSize/2 {
			l.wantPrepared()
		}
		l.mu.Unlock()
		l.syncCond.Signal()
	}
}

func (l *Log) writerEnds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writerDone = true
	l.wakeAll()
}

// takeRound waits for frames and moves at most maxRound bytes of them to writing.
func (l *Log) takeRound() (flushed Mark, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.err != nil {
			return Mark{}, false
		}
		drained := len(l.queue) == 0 || l.stopping && l.queue[0].seq > l.stopSeq
		if drained && l.stopping {
			return Mark{}, false
		}
		if !drained && l.ahead < maxAhead && l.aheadBytes < maxRound {
			break
		}
		l.writeCond.Wait()
	}
	n, bytes := 0, int64(0)
	for n < len(l.queue) && (n == 0 || bytes+aligned(l.queue[n].size) <= maxRound) {
		bytes += aligned(l.queue[n].size)
		n++
	}
	l.queueBytes -= bytes
	l.total.Add(uint64(bytes))
	l.w.endFile = l.endFile
	if n == len(l.queue) {
		l.queue, l.writing = l.writing[:0], l.queue
	} else {
		l.writing = append(l.writing[:0], l.queue[:n]...)
		rest := copy(l.queue, l.queue[n:])
		clear(l.queue[rest:])
		l.queue = l.queue[:rest]
	}
	return l.flushed, true
}

// writeRound places the frames one behind the other and writes them, with one
// write for each file that they reach.
func (l *Log) writeRound(round []*request, mark Mark) error {
	w := &l.w
	need, entries := 0, 0
	for _, r := range round {
		need += frameHeaderSize + len(r.head) + frameAlign
		entries += len(r.lens)
	}
	w.begin(need)
	locs := make([]Location, 0, entries) // one for the round: callers keep them
	for _, r := range round {
		full := w.file == nil || w.pos+aligned(r.size) > l.cfg.FileSize || w.file.id == w.endFile
		if w.file == nil || w.pos > w.firstFrame && full {
			if err := l.rotate(mark); err != nil {
				return err
			}
		}
		first := len(locs)
		locs = r.locate(locs, w.file.id, w.pos)
		r.locs = locs[first:len(locs):len(locs)]
		r.mark = mark
		w.place(&r.encoded)
		w.changes = append(w.changes, r.change)
		l.states.apply(&r.change)
	}
	return l.writeVec()
}

// locate appends the place of each entry's data for the frame at pos.
func (r *request) locate(locs []Location, file uint64, pos int64) []Location {
	pos += frameHeaderSize + int64(len(r.lens)*entrySize+r.extraLen)
	for _, n := range r.lens {
		locs = append(locs, Location{File: file, Pos: pos, Len: n})
		pos += int64(n)
	}
	return locs
}

// begin readies the writer for a round that puts need bytes into the arena: it must
// not move while vec refers to it.
func (w *writer) begin(need int) {
	if cap(w.arena) < need {
		w.arena = make([]byte, 0, need+need/4)
	}
	w.arena, w.run = w.arena[:0], 0
}

// place puts a frame at the end of vec.
func (w *writer) place(e *encoded) {
	at := len(w.arena)
	w.arena = w.arena[:at+frameHeaderSize]
	e.put(w.arena[at:], w.seed, w.pos)
	w.arena = append(w.arena, e.head...)
	if len(e.data) > 0 {
		w.endRun()
		w.vec = append(w.vec, e.data...)
	}
	padding := aligned(e.size) - e.size
	w.arena = append(w.arena, zeros[:padding]...)
	w.pos += e.size + padding
}

var zeros [frameAlign]byte

// endRun moves the arena's new part into vec.
func (w *writer) endRun() {
	if w.run < len(w.arena) {
		w.vec = append(w.vec, w.arena[w.run:])
		w.run = len(w.arena)
	}
}

// write writes at the end of the active file.
func (l *Log) write(at int64, vec [][]byte) error {
	if l.cfg.Direct {
		return l.w.handle.WriteTail(at, vec)
	}
	return l.w.handle.WriteVec(at, vec)
}

// writeVec writes what is placed and notes it.
func (l *Log) writeVec() error {
	w := &l.w
	w.endRun()
	if len(w.vec) == 0 {
		return nil
	}
	size := w.pos - w.vecAt
	err := l.write(w.vecAt, w.vec)
	clear(w.vec)
	w.vec, w.vecAt = w.vec[:0], w.pos
	if err != nil {
		return err
	}
	if l.cfg.Direct && size >= vfs.DirectFrom {
		size = 0
	}
	l.files.record(w.file, w.pos, size, w.changes)
	clear(w.changes)
	w.changes = w.changes[:0]
	l.mu.Lock()
	if !slices.Contains(l.dirty, w.handle) {
		l.dirty = append(l.dirty, w.handle)
	}
	l.mu.Unlock()
	return nil
}
