package commitlog

import (
	"time"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// syncLoop flushes what was written, when somebody waits for that, and calls the
// callbacks.
func (l *Log) syncLoop() {
	var spare []*request
	for {
		p, ok := l.takePass(spare)
		if !ok {
			return
		}
		for _, f := range p.files {
			if err := f.Sync(); err != nil {
				l.fail(err)
				return
			}
		}
		l.completePass(p)
		clear(p.frames)
		spare = p.frames[:0]
	}
}

// pass is what the syncer does at a time.
type pass struct {
	frames []*request // written: done is due
	flush  bool
	files  []vfs.File // to flush, in this order
	end    Mark       // what is on disk then
	seq    uint64
}

// takePass waits for something to do.
func (l *Log) takePass(spare []*request) (p pass, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && len(l.written) == 0 && !l.flushNeeded(nil) {
		if l.writerDone {
			return p, false
		}
		l.syncCond.Wait()
	}
	if l.err != nil {
		return p, false
	}
	p = pass{frames: l.written, end: l.writtenEnd, seq: l.writtenSeq}
	l.written, l.completing = spare, l.written
	l.ahead, l.aheadBytes = 0, 0
	if p.flush = l.flushNeeded(p.frames); p.flush {
		p.files, l.dirty = l.dirty, nil
		l.flushDue = false
	}
	l.writeCond.Signal()
	return p, true
}

// flushNeeded tells if anybody waits for what is written and not flushed.
func (l *Log) flushNeeded(frames []*request) bool {
	if l.flushedSeq >= l.writtenSeq {
		return false
	}
	if l.flushDue || l.writerDone || len(l.dirty) > 1 || l.flushWanted > l.flushedSeq {
		return true
	}
	if l.cfg.Durability != Fsync {
		return false
	}
	for _, r := range frames {
		if r.mustSync {
			return true
		}
	}
	return false
}

// completePass calls what is due: done of all frames in order, then Flushed of all
// that are on disk now.
func (l *Log) completePass(p pass) {
	if p.flush {
		l.files.allFlushed(p.end.File)
	}
	l.mu.Lock()
	l.completing = nil
	var flushed []func(error)
	if p.flush {
		l.flushed, l.flushedSeq = p.end, p.seq
		flushed, l.unflushed = l.unflushed, nil
	}
	l.mu.Unlock()
	for _, r := range p.frames {
		if r.flushed != nil {
			flushed = append(flushed, r.flushed)
		}
		l.release(r, nil)
	}
	if p.flush {
		for _, fn := range flushed {
			fn(nil)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.flush {
		l.unflushed = append(l.unflushed, flushed...)
	}
	rest := l.waiters[:0]
	for _, w := range l.waiters {
		if w.seq <= l.flushedSeq {
			w.ch <- nil
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiters[len(rest):])
	l.waiters = rest
	l.armTimer()
}

// armTimer starts the flush timer if something unflushed should not stay so; mu is
// held.
func (l *Log) armTimer() {
	late := l.flushedSeq < l.writtenSeq && (l.cfg.Durability == Interval || len(l.unflushed) > 0)
	if !late || l.timerArmed || l.writerDone {
		return
	}
	l.timerArmed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(l.cfg.FlushInterval, l.timerFires)
	} else {
		l.timer.Reset(l.cfg.FlushInterval)
	}
}

func (l *Log) timerFires() {
	l.mu.Lock()
	l.timerArmed = false
	l.flushDue = l.flushedSeq < l.writtenSeq
	l.mu.Unlock()
	l.syncCond.Signal()
}
