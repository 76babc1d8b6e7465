package dedup

import "fmt"

// Verdict is what the accept rule says about a batch or a skip.
type Verdict uint8

// The verdicts. They travel in log entries' results, not in stored bytes.
const (
	Accept    Verdict = iota // it continues the watermark
	Duplicate                // everything in it is accounted for: confirm and drop
	Missing                  // something before it has not come: the source must rewind
	Diverged                 // this log and the source's differ: stop, a person must decide
	Invalid                  // it contradicts itself: no source sends it
)

var verdictNames = [...]string{"accept", "duplicate", "missing", "diverged", "invalid"}

// String gives the verdict's word.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict-%d", uint8(v))
}
