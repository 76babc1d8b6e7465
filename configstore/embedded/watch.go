package embedded

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Watch implements [configstore.Store]. Puts of this handle wake it at once,
// those of others at the next poll.
func (s *Store) Watch(ctx context.Context, prefix string, fn func([]configstore.Document)) error {
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	var last []configstore.Document
	var seen changes
	for first := true; ; first = false {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		now := s.marked() // before the list: a later put changes the token again
		if first || now != seen || !now.done {
			docs, err := s.List(ctx, prefix)
			if err != nil {
				return err
			}
			seen = now
			if first || !sameDocuments(docs, last) {
				last = docs
				fn(docs)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.closed:
			return rhumb.Errorf(rhumb.KindUnavailable, "%w", configstore.ErrClosed)
		case <-changed:
		case <-tick.C:
		}
	}
}
