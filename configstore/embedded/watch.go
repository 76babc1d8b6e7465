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
	seen := ""
	for first := true; ; first = false {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		now := s.marked() // before the list, which waits for a put under way; a later one changes the token again
		if first || now != seen {
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
