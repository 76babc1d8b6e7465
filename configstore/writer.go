package configstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Writer is the only way to change documents: it reads, edits, validates and
// puts with compare-and-set, and begins again when somebody else was faster. It
// may be used concurrently. An edit that changes nothing stores nothing, so that
// regions act on real changes only.
//
// An edit function gets what is stored (the zero document, with its names, if
// there is none or a tombstone) and changes it in place. It may be called
// several times. Fields of Meta are the Writer's.
type Writer struct {
	store Store
	by    string
	// guard refuses writes while the store is not to be trusted.
	guard   func(ctx context.Context, leaving rhumb.RegionName) error
	after   func(context.Context)
	leaving rhumb.RegionName // the region that is removed; empty: none

	within map[rhumb.Tenant]bool // see [Writer.Within]; nil: the whole mesh
}

// NewWriter makes a Writer straight onto a store. Who has a View uses
// [View.Writer], which also refuses to write to a store that went back. by is
// written into updated_by.
func NewWriter(store Store, by string) *Writer {
	return &Writer{store: store, by: by, guard: func(context.Context, rhumb.RegionName) error { return nil }, after: func(context.Context) {}}
}

// putAttempts bounds how often an edit begins again. Each lost race means that
// another writer won one, so this many losses in a row mean a broken backend.
const putAttempts = 256

// errUnchanged is what an edit gives when there is nothing to store.
var errUnchanged = errors.New("configstore: unchanged")

// change is one read-modify-write: edit, then check against the old one (nil if
// there is none, or a tombstone), then put.
type change[T any] struct {
	key   string
	edit  func(v *T) error
	check func(ctx context.Context, v, old *T) error
}

// run gives the stored document after the change.
func (c change[T]) run(ctx context.Context, w *Writer, read func(Document) (T, []string, error), write func(*T, *Document, string, time.Time) (Document, error)) (T, error) {
	for range putAttempts {
		v, err := c.attempt(ctx, w, read, write)
		if !errors.Is(err, ErrConflict) {
			return v, err
		}
	}
	var none T
	return none, rhumb.Errorf(rhumb.KindUnavailable, "configstore: %s changed under %d attempts to change it", c.key, putAttempts)
}

// attempt is one round of run; an error that wraps [ErrConflict] says that somebody
// else was faster.
func (c change[T]) attempt(whole context.Context, w *Writer, read func(Document) (T, []string, error), write func(*T, *Document, string, time.Time) (Document, error)) (T, error) {
	var none T
	ctx, cancel := w.patient(whole)
	defer cancel()
	if err := w.guard(ctx, w.leaving); err != nil {
		return none, err
	}
	old, stored, err := c.read(ctx, w.store, read)
	if err != nil {
		return none, err
	}
	var v T
	if old != nil {
		if v, _, err = read(*stored); err != nil { // a copy that shares nothing
			return none, err
		}
	}
	if err := c.edit(&v); errors.Is(err, errUnchanged) {
		return v, nil
	} else if fe := (*FieldError)(nil); errors.As(err, &fe) {
		return none, inDocument(c.key, err)
	} else if err != nil {
		return none, err
	}
	if err := c.check(ctx, &v, old); err != nil {
		return none, inDocument(c.key, err)
	}
	d, err := write(&v, stored, w.by, time.Now())
	if err != nil {
		return none, err
	}
	if stored != nil && sameContent(d, *stored) {
		return *old, nil
	}
	if err := w.store.Put(ctx, d); err != nil {
		return none, err
	}
	w.after(whole)
	return v, nil
}

// sameContent compares all but the fields of Meta that each version has anew.
func sameContent(a, b Document) bool {
	x, errX := parseObject(a.JSON)
	y, errY := parseObject(b.JSON)
	if errX != nil || errY != nil {
		return false
	}
	for _, o := range []object{x, y} {
		delete(o, "version")
		delete(o, "updated_at")
		delete(o, "updated_by")
		delete(o, "updated_caller")
	}
	return bytes.Equal(x.canonical(), y.canonical())
}

// read gives the stored document, and decoded if it is not a tombstone.
func (c change[T]) read(ctx context.Context, s Store, read func(Document) (T, []string, error)) (*T, *Document, error) {
	d, err := s.Get(ctx, c.key)
	if errors.Is(err, ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if d.Deleted {
		return nil, &d, nil
	}
	v, _, err := read(d)
	if err != nil {
		return nil, nil, err
	}
	return &v, &d, nil
}

// apply runs a change for a kind of document.
func apply[T any, P pointerTo[T]](ctx context.Context, w *Writer, c change[T]) (T, error) {
	name, err := parseKey(c.key)
	if err != nil {
		var none T
		return none, err
	}
	if err := w.mayWrite(name); err != nil {
		var none T
		return none, err
	}
	edit := c.edit
	c.edit = func(v *T) error {
		P(v).named(name)
		before := *P(v).meta()
		err := edit(v)
		P(v).named(name) // names belong to the key, Meta to the Writer
		deleted := P(v).meta().Deleted
		*P(v).meta() = before
		P(v).meta().Deleted = deleted
		return err
	}
	return c.run(ctx, w, decode[T, P], func(v *T, old *Document, by string, at time.Time) (Document, error) {
		P(v).meta().UpdatedCaller = callerOf(ctx)
		return encode(P(v), old, by, at)
	})
}

// getAs reads a document that must be there and not be deleted.
func getAs[T any, P pointerTo[T]](ctx context.Context, s Store, key string) (*T, error) {
	d, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if d.Deleted {
		return nil, NotFound(key)
	}
	v, _, err := decode[T, P](d)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// listAs reads the documents under a prefix, tombstones too.
func listAs[T any, P pointerTo[T]](ctx context.Context, s Store, prefix string) ([]T, error) {
	docs, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(docs))
	for _, d := range docs {
		v, _, err := decode[T, P](d)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
