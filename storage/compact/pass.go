package compact

import "github.com/rhumbmq/rhumb/internal/rhumb"

// Record is what matters of a record.
type Record struct {
	Key       Key
	Offset    rhumb.Offset // in this log
	Tombstone bool
	// Held is 0 if no edge has to carry the record any more; else a number that all
	// records of its origin life have.
	Held uint32
}

// Pass is one walk over a partition's log. First [Pass.Note] and [Pass.NoteExpired],
// then [Pass.Keep], each with records in the order of offsets.
type Pass struct {
	keys    *Keys
	horizon rhumb.Offset
	opaque  bool
	outcome Outcome
}

// NewPass begins a pass with an empty table. Tombstones below horizon have been
// there for long enough.
func NewPass(keys *Keys, horizon rhumb.Offset) *Pass {
	keys.Reset()
	return &Pass{keys: keys, horizon: horizon, outcome: Outcome{Horizon: horizon, Tombstone: rhumb.NoOffset, Waiting: rhumb.NoOffset, Held: rhumb.NoOffset}}
}

// Note notes the records of one batch from cleaned on. It gives false, and notes
// nothing, if the table has no room: the pass ends before this batch. A batch that
// does not fit an empty table is passed over; its records then supersede nothing.
func (p *Pass) Note(batch []Record) bool {
	if !p.keys.Room(2 * len(batch)) {
		return p.keys.Len() == 0
	}
	for _, r := range batch {
		p.keys.put(r.Key, r.Offset)
		if r.Held != 0 {
			p.keys.put(r.Key.of(r.Held), r.Offset)
		}
	}
	return true
}

// NoteExpired notes a tombstone below cleaned that may go. Without room it stays.
func (p *Pass) NoteExpired(r Record) {
	if p.mayGo(r) && p.keys.Room(1) {
		p.keys.put(r.Key, r.Offset)
	}
}

func (p *Pass) mayGo(r Record) bool { return r.Tombstone && r.Offset < p.horizon && r.Held == 0 }

// Opaque says that the walk has come to a batch whose records cannot be read.
func (p *Pass) Opaque() { p.opaque = true }

// Keep says whether a record stays. It must be asked about each record that is there
// from the log start on; fixed ones stay for a reason of the caller's.
func (p *Pass) Keep(r Record, fixed bool) bool {
	keep := p.judge(r) || fixed
	if keep && r.Tombstone {
		p.outcome.tombstone(r)
	}
	return keep
}

func (p *Pass) judge(r Record) bool {
	newest, s := p.keys.newest(r.Key)
	switch {
	case newest < r.Offset: // not noted, or behind what was
		return true
	case newest > r.Offset:
		s.val |= olderSeen
		if r.Held == 0 {
			return false
		}
		own, _ := p.keys.newest(r.Key.of(r.Held))
		return own <= r.Offset
	case p.opaque || !p.mayGo(r):
		return true
	}
	if s.val&olderSeen != 0 {
		p.outcome.Restart = true
		return true
	}
	return false
}

// Outcome gives what the pass leaves behind; cleaned is as far as it noted.
func (p *Pass) Outcome(cleaned rhumb.Offset) Outcome {
	o := p.outcome
	o.Cleaned = cleaned
	return o
}
