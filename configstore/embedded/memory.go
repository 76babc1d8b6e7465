package embedded

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Memory is a [configstore.Store] in memory. It uses no file, clock or
// goroutine, so it works under virtual time. All handles of a test share one.
type Memory struct {
	mu      sync.Mutex
	docs    map[string]configstore.Document
	down    bool
	silent  bool
	closed  bool
	changed chan struct{} // closed and made anew at each change
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{docs: map[string]configstore.Document{}, changed: make(chan struct{})}
}

// state says why no call can be answered. mu is held.
func (m *Memory) state() error {
	switch {
	case m.closed:
		return rhumb.Errorf(rhumb.KindUnavailable, "%w", configstore.ErrClosed)
	case m.down:
		return rhumb.Errorf(rhumb.KindUnavailable, "configstore: memory store is down")
	}
	return nil
}

// notify wakes watches. mu is held.
func (m *Memory) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Get implements [configstore.Store].
func (m *Memory) Get(ctx context.Context, key string) (configstore.Document, error) {
	if err := checkCall(ctx, key); err != nil {
		return configstore.Document{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.state(); err != nil {
		return configstore.Document{}, err
	}
	d, ok := m.docs[key]
	if !ok {
		return configstore.Document{}, configstore.NotFound(key)
	}
	return d, nil
}

// List implements [configstore.Store].
func (m *Memory) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.state(); err != nil {
		return nil, err
	}
	return m.list(prefix), nil
}

func (m *Memory) list(prefix string) []configstore.Document {
	var out []configstore.Document
	for _, key := range slices.Sorted(maps.Keys(m.docs)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, m.docs[key])
		}
	}
	return out
}

// Put implements [configstore.Store].
func (m *Memory) Put(ctx context.Context, d configstore.Document) error {
	if err := checkCall(ctx, d.Key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.state(); err != nil {
		return err
	}
	if err := configstore.CheckPut(d, m.docs[d.Key].Version); err != nil {
		return err
	}
	m.docs[d.Key] = d
	m.notify()
	return nil
}

// Watch implements [configstore.Store].
func (m *Memory) Watch(ctx context.Context, prefix string, fn func([]configstore.Document)) error {
	var last []configstore.Document
	for first := true; ; first = false {
		m.mu.Lock()
		err, silent, changed := m.state(), m.silent, m.changed
		docs := m.list(prefix)
		m.mu.Unlock()
		if err != nil {
			return err
		}
		if first || !silent && !sameDocuments(docs, last) {
			last = docs
			fn(docs)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Close implements [configstore.Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		m.notify()
	}
	return nil
}

// SetDown makes every call fail, and breaks watches, until it is called with false.
func (m *Memory) SetDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
	m.notify()
}

// SetSilent makes watches tell nothing, without an error, until it is called
// with false.
func (m *Memory) SetSilent(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = silent
	m.notify()
}

// Snapshot gives a copy of all documents, for Rollback.
func (m *Memory) Snapshot() map[string]configstore.Document {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.docs)
}

// Rollback replaces all documents, as an operator does who restores a backup: no
// version is checked.
func (m *Memory) Rollback(docs map[string]configstore.Document) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.docs = maps.Clone(docs)
	m.notify()
}

func checkCall(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return configstore.CheckKey(key)
}

// sameDocuments compares two lists by key, version and content.
func sameDocuments(a, b []configstore.Document) bool {
	return slices.EqualFunc(a, b, func(x, y configstore.Document) bool {
		return x.Key == y.Key && x.Version == y.Version && string(x.JSON) == string(y.JSON)
	})
}
