package session

import "fmt"

// State is where a session stands, as its source sees it.
type State uint8

// The states; see the package comment for how they follow each other.
const (
	Closed    State = iota // no session, and nothing wrong
	Opening                // asked for one, or comparing chains
	Flowing                // sending, or waiting for confirmations
	Idle                   // everything that may leave is confirmed
	Held                   // the destination has no room or holds by quota
	Stalled                // refused for now, or no progress
	Diverged               // the logs differ: an operator must decide
	Refused                // the destination will not have it
	Searching              // closed, to be opened again at once: it asks where the logs part
	Settled                // of a past life: the destination takes nothing more of it
	Standby                // the destination takes this origin over another path
)

var stateNames = [...]string{"closed", "opening", "flowing", "idle", "held", "stalled", "diverged", "refused",
	"searching", "settled", "standby"}

// String gives the state's word.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// Open reports whether there is a session on the wire, or asked for.
func (s State) Open() bool { return s == Opening || s == Flowing || s == Idle }

// Retriable reports whether to open again after a back-off. Diverged and refused
// wait for a change from outside.
func (s State) Retriable() bool { return s == Held || s == Stalled }
