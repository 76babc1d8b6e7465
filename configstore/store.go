package configstore

import (
	"context"
	"errors"
)

// Store keeps documents. It does not know what they mean: versions and tombstones
// are its business, fields are not. Its methods may be called concurrently.
// Errors carry a kind of internal/rhumb: invalid for a key or document that cannot
// be stored, unavailable while the store is down, corrupt for damaged content.
type Store interface {
	// Get gives the document of a key, also when it is a tombstone. An absent
	// document is [ErrNotFound].
	Get(ctx context.Context, key string) (Document, error)

	// List gives all documents, tombstones too, whose key starts with prefix,
	// sorted by key. What it gives is no older than what any earlier, finished
	// call of this or another handle gave or stored.
	List(ctx context.Context, prefix string) ([]Document, error)

	// Put stores a document whose version is one above that of the stored one
	// (1 for an absent one), durably, or nothing: any other version is
	// [ErrConflict]. After another error the document may or may not be stored.
	Put(ctx context.Context, d Document) error

	// Watch calls fn with all documents under prefix, once at the start and
	// again soon after each change; changes close together may come as one.
	// It blocks until ctx ends, whose cause it returns, or the watch breaks.
	// A watch may also fall silent without an error: who relies on it reads the
	// store again from time to time. fn is not called concurrently.
	Watch(ctx context.Context, prefix string, fn func([]Document)) error

	// Close frees what the handle holds and ends its watches. It is idempotent.
	Close() error
}

// Sentinels of this package. Each comes wrapped in an error with a kind and the
// key that it is about.
var (
	ErrNotFound  = errors.New("configstore: no such document")                // kind not found
	ErrConflict  = errors.New("configstore: document was changed")            // kind fenced: read it again
	ErrClosed    = errors.New("configstore: closed")                          // kind unavailable
	ErrWentBack  = errors.New("configstore: store went back")                 // kind forbidden
	ErrOtherMesh = errors.New("configstore: store is of another mesh")        // kind forbidden
	ErrNoMesh    = errors.New("configstore: store holds no mesh yet")         // kind not found
	ErrOtherData = errors.New("configstore: other data directory")            // kind forbidden: region replace
	ErrOthers    = errors.New("configstore: another region's data directory") // kind forbidden
	ErrRemoved   = errors.New("configstore: region was removed")              // kind forbidden: its number is retired
	ErrFirst     = errors.New("configstore: a first start needs the store")   // kind unavailable
)
