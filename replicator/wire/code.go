package wire

import (
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Code says why a session was refused or closed. Values are for ever.
type Code uint8

// The codes.
const (
	CodeNone        Code = iota
	CodeMissing          // refuse: something before it has not come, rewind to the watermark
	CodeHold             // refuse: the destination has no room or holds by quota, later
	CodeUnavailable      // refuse: no leader, no answer, starting, later
	CodeNotFound         // refuse: no such topic or partition there yet, later
	CodeDiverged         // refuse: the logs differ, a person must decide
	CodeDeleted          // refuse: the topic was deleted under a higher count
	CodeForbidden        // refuse: the policy there has no such edge
	CodeInvalid          // refuse: the frame broke the protocol or its batch is damaged
	CodeIdle             // close: nothing to send
	CodeReplaced         // close: a newer session of the same origin took over
	CodeShutdown         // close: the region stops
	CodeElsewhere        // refuse, close: the destination takes this origin over another path just now
	CodeOwn              // refuse: the life is the destination's own: it never comes back to it
)

var codeNames = [...]string{"none", "missing", "hold", "unavailable", "not found", "diverged", "deleted", "forbidden",
	"invalid", "idle", "replaced", "shutdown", "elsewhere", "own"}

// String gives the code's words.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code-%d", uint8(c))
}

// Retriable reports whether the same session may work later by itself. Codes of
// a later version are taken as retriable: to ask again harms nobody.
func (c Code) Retriable() bool {
	return c != CodeDiverged && c != CodeDeleted && c != CodeForbidden && c != CodeInvalid && c != CodeOwn
}

// CodeOf gives the code that tells a source about an error of the region.
func CodeOf(err error) Code {
	switch rhumb.KindOf(err) {
	case rhumb.KindNoSpace:
		return CodeHold
	case rhumb.KindNotFound:
		return CodeNotFound
	case rhumb.KindMissing:
		return CodeMissing
	case rhumb.KindDiverged:
		return CodeDiverged
	case rhumb.KindFenced:
		return CodeDeleted
	case rhumb.KindForbidden:
		return CodeForbidden
	case rhumb.KindInvalid, rhumb.KindCorrupt, rhumb.KindTooLarge, rhumb.KindUnsupported:
		return CodeInvalid
	}
	return CodeUnavailable
}
