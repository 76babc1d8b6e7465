package commitlog

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	// maxRound is how many bytes of frames one write takes at most, unless one frame
	// alone has more: larger rounds bring no more throughput, only latency.
	maxRound = 8 << 20
	// maxAhead is how many rounds may be written while a flush is running: enough that
	// a late frame still joins the next flush, few enough that many small frames share
	// a write.
	maxAhead = 4
)

// Log is the commit log. Its methods may be used by any goroutine.
type Log struct {
	cfg    Config
	files  fileSet
	states shardStates
	pool   sync.Pool // of *request
	total  atomic.Uint64

	// Owned by the writer while Run runs.
	w writer
	// What NEWEST says. Owned by who makes the next file (see prepState), before and
	// after Run by its caller.
	newest     newestRecord
	newestSafe bool // newest was flushed by this process

	mu        sync.Mutex
	writeCond sync.Cond // wakes the writer
	syncCond  sync.Cond // wakes the syncer
	prepCond  sync.Cond // wakes the preparer, and the writer that waits for it

	queue      []*request
	queueBytes int64
	writing    []*request // taken by the writer, not written yet
	written    []*request // waiting for the syncer
	ahead      int        // rounds in written
	aheadBytes int64
	completing []*request    // taken by the syncer, its flush not over
	unflushed  []func(error) // Flushed callbacks of frames that are done but not flushed
	dirty      []vfs.File    // written to since their last flush, in order

	// flushedSeq <= writtenSeq <= appended: counts of frames.
	appended, writtenSeq, flushedSeq uint64
	writtenEnd, flushed              Mark

	flushWanted uint64 // flush until flushedSeq reaches it
	flushDue    bool   // the timer fired
	timer       *time.Timer
	timerArmed  bool
	waiters     []flushWaiter

	endFile uint64 // the file that EndFile named last

	prep    prepState
	refused []refusal

	running    bool
	runDone    chan struct{}
	stopping   bool
	stopSeq    uint64 // the last frame to write before stopping
	writerDone bool
	err        error // why the log ended or is ending
	ended      bool  // Run is over: nothing is queued any more
	closed     bool
}

type flushWaiter struct {
	seq uint64
	ch  chan error // capacity 1: written once, by whoever takes it off the list
}

// request is a frame on its way to disk.
type request struct {
	encoded
	change   change
	lens     []uint32 // of the entries' data
	seq      uint64
	mustSync bool
	done     func(locs []Location, err error)
	flushed  func(err error)
	locs     []Location
}

// Append queues a frame. Frames reach the log in the order of the calls, and done
// is called in that order, from the log's goroutine; it must not block. It gets the
// place of each entry's data, to keep.
//
// With durability Fsync and mustSync done means: on disk, together with all frames
// before it. Without mustSync, or with another durability, it means: written, and
// under Fsync all mustSync frames before it are on disk. f.Flushed, if set, tells
// when it is on disk in any case.
//
// f may be reused when Append returns, but the entries' data belongs to the log until
// done. Append does not limit what is queued: callers have a budget of their own. It
// blocks only for the time that it takes to hash the data, and never calls back
// itself: the caller may hold locks that its callbacks take. Frames that are invalid,
// or come after the log has ended, get their error from a goroutine that lives only
// for that, in order among themselves.
func (l *Log) Append(f *Frame, mustSync bool, done func(locs []Location, err error)) {
	r := l.pool.Get().(*request)
	r.mustSync, r.done, r.flushed = mustSync, done, f.Flushed
	err := f.check()
	if err == nil {
		err = r.encode(f, f.Conf)
	}
	if err != nil {
		l.mu.Lock()
		l.refuse(r, err)
		l.mu.Unlock()
		return
	}
	r.change = changeOf(f)
	r.lens = r.lens[:0]
	for _, e := range f.Entries {
		r.lens = append(r.lens, uint32(len(e.GetData())))
	}
	l.mu.Lock()
	if l.ended {
		l.refuse(r, l.err)
		l.mu.Unlock()
		return
	}
	l.appended++
	r.seq = l.appended
	l.queue = append(l.queue, r)
	l.queueBytes += aligned(r.size)
	l.mu.Unlock()
	l.writeCond.Signal()
}

// refusal is a frame that never gets into the log.
type refusal struct {
	r   *request
	err error
}

// refuse calls a frame's callbacks soon; mu is held.
func (l *Log) refuse(r *request, err error) {
	l.refused = append(l.refused, refusal{r, err})
	if len(l.refused) == 1 {
		go l.refuseLoop()
	}
}

// refuseLoop calls the callbacks of what was refused, until there is no more.
func (l *Log) refuseLoop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.refused) > 0 {
		first := l.refused[0]
		l.mu.Unlock()
		l.release(first.r, first.err)
		l.mu.Lock()
		l.refused = l.refused[1:] // only now: while it is not empty, nobody starts a second loop
	}
	l.refused = nil
}

// release calls the callbacks and gives the request back.
// On success it leaves Flushed to the caller: that has its own time.
func (l *Log) release(r *request, err error) {
	done, flushed, locs := r.done, r.flushed, r.locs
	if err != nil {
		locs = nil
	}
	clear(r.data)
	r.done, r.flushed, r.locs, r.change = nil, nil, nil, change{}
	if cap(r.head) > 64<<10 {
		r.head = nil // do not let one large frame keep its memory
	}
	l.pool.Put(r)
	if done != nil {
		done(locs, err)
	}
	if flushed != nil && err != nil {
		flushed(err)
	}
}

// Flush waits until all frames appended before the call are on disk, whatever the
// durability. It needs Run, unless there is nothing to flush.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	if l.flushedSeq >= l.appended {
		l.mu.Unlock()
		return nil
	}
	if l.ended || l.err != nil && !l.running {
		defer l.mu.Unlock()
		return l.err
	}
	w := flushWaiter{seq: l.appended, ch: make(chan error, 1)}
	l.waiters = append(l.waiters, w)
	l.flushWanted = l.appended
	l.mu.Unlock()
	l.syncCond.Signal()
	select {
	case err := <-w.ch:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// EndFile has the next frame begin a new file if that one is the active one by then.
func (l *Log) EndFile(file uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endFile = file
}

// Flushed tells how far the log is on disk.
func (l *Log) Flushed() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed
}

// Err tells why the log ended, nil while it has not.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Run writes and flushes until ctx ends, then writes and flushes what is queued and
// returns nil; or until something fails, and returns that. A failed write or flush
// ends the log: frames without done get the error, and so do later ones. Only Open
// recovers. Run can be called once.
func (l *Log) Run(ctx context.Context) error {
	l.mu.Lock()
	if l.running || l.ended {
		defer l.mu.Unlock()
		return rhumb.Errorf(rhumb.KindInternal, "commitlog: Run called twice or after Close")
	}
	l.running = true
	l.mu.Unlock()
	defer close(l.runDone)
	defer context.AfterFunc(ctx, l.stop)()
	var loops sync.WaitGroup
	for name, loop := range map[string]func(){"writer": l.writeLoop, "syncer": l.syncLoop, "preparer": l.prepareLoop} {
		loops.Go(func() {
			pprof.Do(ctx, pprof.Labels("loop", "commitlog-"+name), func(context.Context) { loop() })
		})
	}
	loops.Wait()
	return l.finish()
}

// stop lets Run end after what is queued now.
func (l *Log) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopping {
		l.stopping, l.stopSeq = true, l.appended
	}
	l.wakeAll()
}

// fail ends the log.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.wakeAll()
}

func (l *Log) wakeAll() {
	l.writeCond.Broadcast()
	l.syncCond.Broadcast()
	l.prepCond.Broadcast()
}

// Kill ends the log as if the process died: nothing more is written or flushed
// (what is in a system call finishes), and Run returns [ErrKilled]. Frames without
// done get it too. It does not wait.
func (l *Log) Kill() { l.fail(ErrKilled) }

// finish calls the callbacks of everything that will not be written any more.
func (l *Log) finish() error {
	l.mu.Lock()
	failed := l.err
	if l.err == nil {
		l.err = ErrClosed
	}
	err := l.err
	if l.timer != nil {
		l.timer.Stop()
	}
	prepared := l.prep.ready
	l.prep.ready = nil
	unflushed := l.unflushed
	l.unflushed = nil
	for _, fn := range unflushed {
		l.mu.Unlock()
		fn(err)
		l.mu.Lock()
	}
	lists := [][]*request{l.completing, l.written, l.writing}
	l.completing, l.written, l.writing = nil, nil, nil
	for _, list := range lists {
		l.abort(list, err)
	}
	for len(l.queue) > 0 { // callbacks may append
		list := l.queue
		l.queue = nil
		l.abort(list, err)
	}
	l.ended = true
	for _, w := range l.waiters {
		w.ch <- err
	}
	l.waiters = nil
	l.mu.Unlock()
	if prepared != nil {
		_ = prepared.file.Close()
		// If this fails, the file has no header of its own, and Open takes it back.
		if active := l.w.active(); failed == nil && l.setNewest(active, active) == nil {
			_ = l.files.retirePath(l.files.path(prepared.id))
		}
	}
	return failed
}

// abort fails requests; mu is given back while callbacks run.
func (l *Log) abort(list []*request, err error) {
	l.mu.Unlock()
	defer l.mu.Lock()
	for _, r := range list {
		l.release(r, err)
	}
}

// Close ends Run as the end of its ctx does, waits for it, and closes the files. It
// is idempotent; reads after it fail.
func (l *Log) Close() error {
	l.stop()
	l.mu.Lock()
	running, closed := l.running, l.closed
	l.closed = true
	l.mu.Unlock()
	if running {
		<-l.runDone
	} else if !closed {
		_ = l.finish()
	}
	if closed {
		return nil
	}
	return l.files.close()
}
