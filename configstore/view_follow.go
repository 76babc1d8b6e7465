package configstore

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// told is what a store's watch said last.
type told struct {
	docs atomic.Pointer[[]Document]
	wake chan struct{} // capacity 1: the last word counts
}

// heardPause is the least between two reads for what peers say: a peer that says
// something else all the time costs no more. So it is while the store is not followed, for
// what its watch tells: nothing waits for that, and a read lists all documents.
const heardPause = time.Second

// Run follows the store until ctx ends; then it returns nil.
func (v *View) Run(ctx context.Context) error {
	said := told{wake: make(chan struct{}, 1)}
	var watcher sync.WaitGroup
	watcher.Go(func() { v.watch(ctx, &said) })
	defer watcher.Wait()
	tick := time.NewTicker(v.cfg.RereadEvery)
	defer tick.Stop()
	missed := false // a read by time found what the watch has not told of yet
	var heardAt time.Time
	var due <-chan time.Time // the store is read then; nil: nothing waits
	soon := func() {
		if due == nil {
			due = time.After(time.Until(heardAt.Add(heardPause)))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-said.wake:
			missed = false
			if v.knows(ctx, *said.docs.Load()) {
				continue
			}
			if !v.current() {
				soon()
				continue
			}
			_ = v.Refresh(ctx) // the status has the error
			continue
		case <-v.heard:
			soon()
			continue
		case heardAt = <-due:
			due = nil
			_ = v.Refresh(ctx)
			continue
		case <-tick.C:
		}
		if missed {
			missed = false
			v.mu.Lock()
			v.status.CaughtByReread++
			v.mu.Unlock()
			v.log.Warn("watch missed a change", "interval", v.cfg.RereadEvery)
		}
		before := v.shown.Load()
		_ = v.Refresh(ctx)
		// A watch may be a moment behind a read: it has until the next one.
		missed = v.shown.Load() != before && len(said.wake) == 0 && due == nil
	}
}

// knows reports whether the store's watch told of nothing but what was read already,
// by a writer of this View, say: then there is nothing to read, which with tens of
// thousands of documents is no small thing. A watch may be behind what was read, so
// what it tells is never taken as it is.
func (v *View) knows(ctx context.Context, docs []Document) bool {
	select {
	case <-ctx.Done():
		return true
	case v.reading <- struct{}{}:
	}
	defer func() { <-v.reading }()
	if len(docs) != len(v.seen) || v.unkept || !v.current() {
		return false
	}
	for i := range docs {
		old, ok := v.seen[docs[i].Key]
		if !ok || old.Version != docs[i].Version || !bytes.Equal(old.JSON, docs[i].JSON) {
			return false
		}
	}
	return true
}

// current reports whether the last read of the store was taken, and all is well.
func (v *View) current() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status.State == StateCurrent
}

// watch wakes the reader at each change that the store tells of.
func (v *View) watch(ctx context.Context, said *told) {
	const pauseMin = 100 * time.Millisecond
	pause := pauseMin
	for ctx.Err() == nil {
		_ = v.cfg.Store.Watch(ctx, Prefix, func(docs []Document) { // a broken watch shows in the reads
			pause = pauseMin
			said.docs.Store(&docs)
			select {
			case said.wake <- struct{}{}:
			default:
			}
		})
		retry := time.NewTimer(pause)
		pause = min(2*pause, v.cfg.RereadEvery)
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
		retry.Stop()
	}
}

// refresh is one read of the store, for all that asked before it began.
type refresh struct {
	done chan struct{} // closed when err is valid
	err  error
	// gone: who was to read gave up before it began.
	gone bool
}

// Refresh reads the store now. Its error is that of the store, [ErrWentBack],
// [ErrOtherMesh] or [ErrNoMesh]; after each the last good copy stays in force. Those
// that ask while a read is under way share the next one.
func (v *View) Refresh(ctx context.Context) error {
	for {
		v.mu.Lock()
		r := v.asked
		if r == nil {
			r = &refresh{done: make(chan struct{})}
			v.asked = r
			v.mu.Unlock()
			v.refresh(ctx, r)
			return r.err
		}
		v.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.done:
			if !r.gone {
				return r.err
			}
		}
	}
}

// refresh does what Refresh says, for all that share r.
func (v *View) refresh(ctx context.Context, r *refresh) {
	defer close(r.done)
	begin := func() {
		v.mu.Lock()
		v.asked = nil
		v.mu.Unlock()
	}
	select {
	case <-ctx.Done():
		begin()
		r.err, r.gone = context.Cause(ctx), true
		return
	case v.reading <- struct{}{}:
	}
	defer func() { <-v.reading }()
	begin()
	said := v.said() // before the read: a peer may be ahead of an older one
	docs, err := v.read(ctx)
	if err == nil {
		err = v.take(docs, said)
	}
	r.err, r.gone = err, err != nil && ctx.Err() != nil
}
