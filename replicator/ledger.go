package replicator

import (
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// ledger remembers what a session sent and what of it is not confirmed, and
// holds the bytes of it that are taken from the node's send budget. It is apart
// from the session's own goroutine, because that one may wait for the budget
// which a confirmation gives back.
type ledger struct {
	budget allotment

	mu       sync.Mutex
	sent     []entry // in order of last
	bytes    int64   // of sent
	records  int64   // of sent
	reserved int64   // taken from the budget and not used by sent yet
}

// entry is one batch under way.
type entry struct {
	last    rhumb.Offset
	records int64
	bytes   int64
	time    int64 // append time at the origin, ms since 1970
}

// reserve notes bytes that were taken from the budget for a read.
func (l *ledger) reserve(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved += n
}

// cover has at least n bytes reserved. A batch that is larger than what was asked for is
// read all the same, and others wait at once for what it takes.
func (l *ledger) cover(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := n - l.reserved; over > 0 {
		l.budget.overdraw(over)
		l.reserved += over
	}
}

// send moves a batch from what is reserved to what is under way. A batch larger
// than what was reserved for it overdraws the budget: one that is larger than
// a whole read would never get through otherwise.
func (l *ledger) send(d *wire.Data) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entry{last: d.Envelope.Last, records: int64(d.Envelope.Count), bytes: int64(d.Size()), time: d.Envelope.AppendTime}
	if over := e.bytes - l.reserved; over > 0 {
		l.budget.overdraw(over)
		l.reserved += over
	}
	l.reserved -= e.bytes
	l.sent = append(l.sent, e)
	l.bytes += e.bytes
	l.records += e.records
}

// keep gives back what was reserved and not needed.
func (l *ledger) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.release(l.reserved)
	l.reserved = 0
}

// confirm drops what the destination has, and gives its bytes back. It tells how
// many they were.
func (l *ledger) confirm(upTo rhumb.Offset) (freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.sent) && l.sent[n].last <= upTo {
		freed += l.sent[n].bytes
		l.records -= l.sent[n].records
		n++
	}
	l.sent = l.sent[:copy(l.sent, l.sent[n:])]
	l.bytes -= freed
	l.budget.release(freed)
	return freed
}

// rewind forgets what is under way: it is sent again.
func (l *ledger) rewind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.release(l.bytes)
	l.sent, l.bytes, l.records = l.sent[:0], 0, 0
}

// close gives everything back.
func (l *ledger) close() {
	l.rewind()
	l.keep()
}

// holds reports whether anything is under way.
func (l *ledger) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent) > 0
}

// under gives the figures of what is under way; oldest and last are zero if it
// is nothing.
func (l *ledger) under() (records, bytes, oldest int64, last rhumb.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sent) == 0 {
		return 0, 0, 0, rhumb.NoOffset
	}
	return l.records, l.bytes, l.sent[0].time, l.sent[len(l.sent)-1].last
}
