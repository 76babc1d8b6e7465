package rhumb

import (
	"context"
	"errors"
	"fmt"
)

// Kind classifies an error by what its receiver should do. Each protocol maps
// kinds to its own codes in exactly one file. Kinds travel between regions: add
// new ones only at the end.
type Kind uint8

// The kinds of errors.
const (
	KindInternal        Kind = iota // a fault of ours: report it
	KindInvalid                     // the request can never work as it is
	KindNotFound                    // no such topic, partition, group, region
	KindExists                      // already there
	KindNotLeader                   // ask the leader: retriable
	KindFenced                      // an older generation, epoch or life: stop
	KindOutOfOrder                  // producer sequence does not continue
	KindMissing                     // something before it is missing: rewind to the watermark
	KindDiverged                    // two logs differ where they must agree
	KindOutOfRange                  // offset outside of what is kept
	KindTooLarge                    // over a configured limit
	KindCorrupt                     // checksum or structure is wrong
	KindUnavailable                 // not now: retriable
	KindNoSpace                     // disk below its reserve: retriable, later
	KindForbidden                   // policy does not allow it
	KindTimeout                     // may or may not have happened
	KindUnsupported                 // a version or feature that is not built
	KindUnknownProducer             // no state of this producer where some is needed
)

var kindNames = [...]string{"internal", "invalid", "not found", "exists", "not leader", "fenced", "out of order",
	"missing", "diverged", "out of range", "too large", "corrupt", "unavailable", "no space", "forbidden", "timeout",
	"unsupported", "unknown producer"}

// String gives the kind's words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Retriable reports whether the same request may work later.
func (k Kind) Retriable() bool {
	return k == KindNotLeader || k == KindUnavailable || k == KindNoSpace || k == KindTimeout || k == KindMissing
}

// Error is an error with a kind.
type Error struct {
	Kind Kind
	Err  error
}

// Error gives the wrapped text; the kind is for programs.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind; %w wraps as in fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf gives the kind of the outermost [Error] in the chain. Without any, the end of
// a context's time is KindTimeout, and all else KindInternal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	}
	return KindInternal
}
