package embedded

import (
	"context"
	"errors"
	"maps"
	"syscall"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Restore implements [configstore.Restorer]: one document after the other, each as
// durable as a put.
func (s *Store) Restore(ctx context.Context, list []configstore.Replacement) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	lock, err := s.flock(ctx, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, r := range list {
		if err := configstore.CheckReplacement(r); err != nil {
			return err
		}
		stored, err := s.get(r.Document.Key)
		if err := stillWas(r, stored, err); err != nil {
			return err
		}
		if err := s.replace(r.Document); err != nil {
			return unavailable("restore "+r.Document.Key, err)
		}
	}
	s.changedHere()
	return nil
}

// stillWas checks what get found against what a replacement is to replace.
func stillWas(r configstore.Replacement, stored configstore.Document, err error) error {
	absent := errors.Is(err, configstore.ErrNotFound)
	switch {
	case absent && r.Was == nil, err == nil && r.Was != nil && r.Was.Hash() == stored.Hash():
		return nil
	case absent || err == nil:
		return rhumb.Errorf(rhumb.KindFenced, "%w: %s changed meanwhile", configstore.ErrConflict, r.Document.Key)
	}
	return err
}

// changedHere wakes the watches of this handle.
func (s *Store) changedHere() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Restore implements [configstore.Restorer], all or nothing.
func (m *Memory) Restore(ctx context.Context, list []configstore.Replacement) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.state(); err != nil {
		return err
	}
	docs := maps.Clone(m.docs)
	for _, r := range list {
		if err := configstore.CheckReplacement(r); err != nil {
			return err
		}
		stored, ok := docs[r.Document.Key]
		var err error
		if !ok {
			err = configstore.NotFound(r.Document.Key)
		}
		if err := stillWas(r, stored, err); err != nil {
			return err
		}
		docs[r.Document.Key] = r.Document
	}
	m.docs = docs
	m.notify()
	return nil
}
