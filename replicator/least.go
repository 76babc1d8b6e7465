package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ownRead is how many bytes of a log one look at its lag reads at most to count own
// records among those of others; the next look goes on from there.
const ownRead = 64 << 10

// least counts what was published here since the flow exists. While the destination has
// told this process nothing, nothing was sent to it either, and that is certainly
// not confirmed; what is older it may have had from an earlier process.
type least struct {
	started bool
	from    rhumb.Offset // last own offset when the flow was made
	upTo    rhumb.Offset // own records are counted up to here
	records int64        // so many are there between
	oldest  oldest
}

// start has it count from an own offset on.
func (l *least) start(last rhumb.Offset) { *l = least{started: true, from: last, upTo: last} }

// leastLag gives what the destination lacks at least of what lies behind an offset.
func (f *flow) leastLag(log *partitionState, after rhumb.Offset, now time.Time) LeastLag {
	if f.forwards() || f.source.closed != nil {
		return LeastLag{} // others bring copies there, too; a past life does not grow
	}
	f.mu.Lock()
	l := &f.status.least
	if !l.started {
		l.start(log.OwnLast)
	}
	from, end := max(after, l.from), ownEnd(log)
	f.mu.Unlock()
	if end <= from {
		return LeastLag{}
	}
	lag := LeastLag{Records: int64(end - from)}
	if len(log.Watermarks) > 0 { // copies take offsets between own ones
		lag.Records = f.countOwn(from, end)
	}
	if kept := int64(log.End - log.LogStart); kept > 0 {
		lag.Bytes = int64(float64(log.Bytes) * float64(lag.Records) / float64(kept))
	}
	lag.Age = age(f.oldestAfter(&l.oldest, from, log.Flushed), now)
	return lag
}

// countOwn counts own records behind from, of those up to end that have been read. It is
// never more than there are.
func (f *flow) countOwn(from, end rhumb.Offset) int64 {
	f.mu.Lock()
	l := &f.status.least
	upTo, log := l.upTo, sourceLog{flow: f}
	f.mu.Unlock()
	if end > upTo {
		found, err := log.read(upTo+1, end+1, ownRead)
		f.mu.Lock()
		if err == nil && l.upTo == upTo { // else another look counted the same
			for _, b := range found {
				if e := b.Envelope; e.First > l.upTo && e.Last <= end {
					l.records, l.upTo = l.records+int64(e.Count), e.Last
				}
			}
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Records that are gone again from the log's start were at most as many as offsets.
	return max(0, l.records-int64(from-l.from))
}
