package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Causes for which this side ends something. They are not faults.
var (
	errStopped    = errors.New("replicator: stopped")
	errSuperseded = errors.New("replicator: another connection serves this link")
	errRenewed    = fmt.Errorf("%w: the path is another one than when it was made", errSuperseded)
	errNoEdge     = errors.New("replicator: no edge of the policy leads there")
	errReplaced   = errors.New("replicator: partition was deleted or created again")
)

// Codes with which a connection is closed. They are part of the protocol, see package
// wire: add only at the end.
const (
	codeClosing    quic.ApplicationErrorCode = 1 // the process stops
	codeSuperseded quic.ApplicationErrorCode = 2 // another connection of the same pair is kept
	codeRefused    quic.ApplicationErrorCode = 3 // the hello is refused; the reason is in the message
	codeProtocol   quic.ApplicationErrorCode = 4 // the peer broke the protocol
	codeStuck      quic.ApplicationErrorCode = 5 // the watchdog gave the connection up
	codeTwice      quic.ApplicationErrorCode = 6 // as refused: another process of the same region has the link
	codeEnough     quic.ApplicationErrorCode = 7 // this side takes no more connections of the link
	codeRemoved                              = quic.ApplicationErrorCode(wire.CloseRemoved)
)

// refusal is why one side will not have a link with the other. The other side
// gets its text.
type refusal struct {
	reason string
	twice  bool // another process of the refused region has the link
	told   bool // logged by who found it
	// removed is the evidence where the refused region was removed from the mesh, and
	// knows the code that says so; else nil.
	removed *wire.Removed
}

func refusef(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

func (r *refusal) Error() string { return r.reason }

// broken is a fault of the peer's: it ends the connection.
type broken struct{ err error }

func brokenf(format string, args ...any) error { return &broken{fmt.Errorf(format, args...)} }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

// closing gives code and message with which a connection ends for a cause.
func closing(cause error) (quic.ApplicationErrorCode, string) {
	var r *refusal
	var b *broken
	switch {
	case errors.As(cause, &r) && r.twice:
		return codeTwice, r.reason
	case errors.As(cause, &r) && r.removed != nil:
		return codeRemoved, r.removed.Reason()
	case errors.As(cause, &r):
		return codeRefused, r.reason
	case errors.As(cause, &b):
		return codeProtocol, b.Error()
	case errors.Is(cause, errSuperseded):
		return codeSuperseded, ""
	case errors.Is(cause, errStuck):
		return codeStuck, cause.Error()
	case errors.Is(cause, errEnough):
		return codeEnough, ""
	}
	return codeClosing, ""
}

// reading turns what a broken connection gives into the cause: a refusal of the
// peer comes out as one, whatever call saw it.
func reading(err error) error {
	var tls *quic.TransportError
	if errors.As(err, &tls) && tls.ErrorCode.IsCryptoError() {
		return refusef("certificates do not fit: %v", err)
	}
	var app *quic.ApplicationError
	if !errors.As(err, &app) || !app.Remote {
		return err
	}
	switch app.ErrorCode {
	case codeRefused:
		return &refusal{reason: "the peer refuses: " + app.ErrorMessage}
	case codeTwice:
		return &refusal{reason: "the peer refuses: " + app.ErrorMessage, twice: true}
	case codeRemoved:
		return removedBy(app.ErrorMessage)
	case codeSuperseded:
		return errSuperseded
	case codeClosing:
		return errPeerStops
	case codeEnough:
		return errEnough
	}
	return fmt.Errorf("the peer closed the connection: %s (code %d)", app.ErrorMessage, app.ErrorCode)
}

var (
	errPeerStops = errors.New("the peer closed the connection: it stops")
	errEnough    = errors.New("replicator: the link has connections enough")
	errStuck     = errors.New("replicator: no session of the link makes progress")
)

// refusedAsRemoved gives the evidence with which a peer refuses this region.
func refusedAsRemoved(err error) (*wire.Removed, bool) {
	var r *refusal
	if !errors.As(err, &r) || r.removed == nil {
		return nil, false
	}
	return r.removed, true
}

// quiet reports whether an end of a connection is part of normal life.
func quiet(err error) bool {
	return errors.Is(err, errSuperseded) || errors.Is(err, errStopped) || errors.Is(err, context.Canceled) || errors.Is(err, errEnough)
}
