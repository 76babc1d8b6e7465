package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"

	"github.com/rhumbmq/rhumb/configstore"
)

// putTogether bounds the puts under one lock, so that lists are not held off for long.
const putTogether = 64

// putting is a put that waits for its turn.
type putting struct {
	doc  configstore.Document
	done chan error // capacity 1
}

// queue has the puts of a handle that wait. One of them takes the lock of the directory
// for several: each for itself would have to meet a moment at which nobody lists, and
// all who follow the store list it after each put.
type queue struct {
	turn chan struct{} // capacity 1: whoever is in it puts for all

	mu    sync.Mutex
	waits []*putting
}

func (q *queue) add(d configstore.Document) *putting {
	p := &putting{d, make(chan error, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, p)
	return p
}

// withdraw takes a put out of the queue, false if somebody has it in work or has done it.
func (q *queue) withdraw(p *putting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waits, p)
	if i >= 0 {
		q.waits = slices.Delete(q.waits, i, i+1)
	}
	return i >= 0
}

// take takes the oldest puts.
func (q *queue) take() []*putting {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waits), putTogether)
	taken := slices.Clone(q.waits[:n])
	q.waits = slices.Delete(q.waits, 0, n)
	return taken
}

// Put implements [configstore.Store].
func (s *Store) Put(ctx context.Context, d configstore.Document) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := configstore.CheckKey(d.Key); err != nil {
		return err
	}
	p := s.puts.add(d)
	for {
		select {
		case err := <-p.done:
			return err
		case <-ctx.Done():
			if s.puts.withdraw(p) {
				return s.begin(ctx)
			}
			return <-p.done // it is being put, which waits for nobody
		case s.puts.turn <- struct{}{}:
		}
		err := s.putWaiting(ctx)
		<-s.puts.turn
		if err != nil && s.puts.withdraw(p) {
			return err
		}
	}
}

// putWaiting puts the oldest that wait, under one lock. An error says that there was no
// lock, and that nothing was put.
func (s *Store) putWaiting(ctx context.Context) error {
	lock, err := s.flock(ctx, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, p := range s.puts.take() {
		p.done <- s.put(p.doc)
	}
	return nil
}

// put is one put, by who holds the lock.
func (s *Store) put(d configstore.Document) error {
	stored, err := s.get(d.Key)
	if err != nil && !errors.Is(err, configstore.ErrNotFound) {
		return err
	}
	if err := configstore.CheckPut(d, stored.Version); err != nil {
		return err
	}
	if err := s.replace(d); err != nil {
		return unavailable("put "+d.Key, err)
	}
	s.changedHere()
	return nil
}
