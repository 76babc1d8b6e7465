package commitlog

import (
	"errors"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var (
	// ErrClosed is what operations on a log that was closed get.
	ErrClosed = rhumb.Errorf(rhumb.KindUnavailable, "commitlog: closed")
	// ErrKilled is what operations on a log that was killed get (tests).
	ErrKilled = rhumb.Errorf(rhumb.KindUnavailable, "commitlog: killed")
	// ErrRemoved is what reads in a removed file get.
	ErrRemoved = rhumb.Errorf(rhumb.KindNotFound, "commitlog: no such file")
	// ErrTooLarge is what an Append of more than [MaxFrame] bytes gets.
	ErrTooLarge = rhumb.Errorf(rhumb.KindTooLarge, "commitlog: frame too large")
	// ErrInUse is what Remove gets for a file that is not closed and flushed yet.
	ErrInUse = errors.New("commitlog: file is in use")
	// ErrInvalidFrame is what an Append of a frame that cannot be stored gets.
	ErrInvalidFrame = rhumb.Errorf(rhumb.KindInvalid, "commitlog: invalid frame")
)

// CorruptError reports damage to something that was flushed. Its kind is corrupt.
type CorruptError struct {
	File    string // path
	ID      uint64 // of the file
	Pos     int64  // of the damaged frame
	Shard   rhumb.ShardID
	IsShard bool // Shard is known: the frame's header is intact
	Reason  string
}

// Error names file and position.
func (e *CorruptError) Error() string {
	shard := ""
	if e.IsShard {
		shard = fmt.Sprintf(" (shard %d)", e.Shard)
	}
	return fmt.Sprintf("commitlog: %s is damaged at %d%s: %s", e.File, e.Pos, shard, e.Reason)
}

// Unwrap gives an error of kind corrupt.
func (e *CorruptError) Unwrap() error { return errCorrupt }

var errCorrupt = rhumb.Errorf(rhumb.KindCorrupt, "commitlog: damaged")
