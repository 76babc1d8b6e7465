package configstore

import (
	"context"
	"errors"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// changeTime bounds how long a change waits for a store that does not answer: all
// that one attempt reads and puts, together. Servers of Consul that have lost their
// leader have another one well within it. An attempt that was answered and lost a
// race begins anew with as much.
const changeTime = 10 * time.Second

// ErrMaybeStored says that a store was told to put a document and has not answered:
// it may be stored, now or in a moment.
var ErrMaybeStored = errors.New("it may be stored all the same: look before trying again")

// Named is a [Store] that can say which one it is, for people.
type Named interface {
	// Name says what the store is and where, such as "consul at 127.0.0.1:8500".
	Name() string
}

func nameOf(s Store) string {
	if n, ok := s.(Named); ok {
		return n.Name()
	}
	return "the configuration store"
}

// patient gives a context in which the store has to answer by changeTime. Its cause
// says that it did not, and is what a call of the store then gives.
func (w *Writer) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, changeTime, rhumb.Errorf(rhumb.KindUnavailable,
		"configstore: %s has not answered within %v, and nothing was changed", nameOf(w.store), changeTime))
}
