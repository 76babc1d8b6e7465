package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// errStopped is the cause of a part's context when it is stopped in its turn.
var errStopped = errors.New("server: stopped")

// part is something that runs for as long as the server does.
type part struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
	stop   func(context.Context) error // graceful, before cancel; may be nil
	told   atomic.Bool                 // to end
}

// parts are the running parts in the order in which they were started. Each may
// use those before it, so they are stopped from the last to the first, and each
// has ended before the next is told to.
type parts struct {
	failed chan error // capacity 1: the first part that ended by itself

	mu       sync.Mutex
	list     []*part
	stopping string // the part whose turn it is to stop
}

func newParts() *parts { return &parts{failed: make(chan error, 1)} }

// start runs a part. Its context ends only when its turn to stop has come, not
// with the one that asked the server to run. stop, if given, asks it to finish
// what is in flight and is given the rest of the grace.
func (p *parts) start(name string, run func(context.Context) error, stop func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	it := &part{name: name, cancel: cancel, done: make(chan struct{}), stop: stop}
	p.mu.Lock()
	p.list = append(p.list, it)
	p.mu.Unlock()
	go func() {
		err := run(ctx)
		if !it.told.Load() {
			if err == nil {
				err = errors.New("without an error, while it was needed")
			}
			select {
			case p.failed <- fmt.Errorf("%s ended: %w", name, err):
			default: // only the first cause counts
			}
		}
		close(it.done)
	}()
}

// stopAll stops the parts, last one first.
func (p *parts) stopAll(ctx context.Context) error {
	var errs []error
	for {
		it := p.pop()
		if it == nil {
			return errors.Join(errs...)
		}
		it.told.Store(true)
		if it.stop != nil {
			if err := it.stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", it.name, err))
			}
		}
		it.cancel(errStopped)
		<-it.done
	}
}

// kill ends all parts at once.
func (p *parts) kill() {
	p.mu.Lock()
	list := p.list
	p.list = nil
	p.mu.Unlock()
	for _, it := range list {
		it.told.Store(true)
		it.cancel(errStopped)
	}
	for _, it := range list {
		<-it.done
	}
}

func (p *parts) pop() *part {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == 0 {
		return nil
	}
	last := p.list[len(p.list)-1]
	p.stopping = last.name
	p.list = p.list[:len(p.list)-1]
	return last
}
