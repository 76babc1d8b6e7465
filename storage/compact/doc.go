// Package compact decides which records of a compacted partition stay, and when a
// partition is worth a pass. It is pure: records and times come in, decisions go
// out; package storage reads and writes.
//
// # What stays
//
// Of each key the newest record of the partition's log stays. A record that a newer
// one of the same key stands behind is superseded, and goes, unless an edge still
// has to carry it ([Record.Held]): then only a newer record of the same origin life
// lets it go, since the edge may not carry the others.
//
// A tombstone, a record without a value, says that its key is gone. It goes itself
// when three things hold: a pass saw it delete.retention.ms ago or earlier, so that a
// reader who saw the value before has had that long to see the tombstone; no edge has
// to carry it; and this pass found no older record of its key in front of it. The
// last one is what keeps a deleted value from coming back: the older records went
// with an earlier pass, and what goes first is safe first.
//
// # A pass
//
// Below the offset cleaned a pass has seen all records. A pass notes the keys of the
// records from there on, in order, as far as the table of keys has room; then the
// tombstones below it whose time is over. Then it walks from the log start on and asks
// for each record whether it stays ([Pass.Keep]). Any prefix of these decisions
// may be carried out alone, so a crash in the middle does no harm.
//
//	log start       cleaned             as far as the table has room      end
//	   |  keys once    |   noted, with newest offset    |   another pass    |
//	   +---------------+--------------------------------+-------------------+
//
// The table holds 128 bits of SHA-256 of a key and its newest offset. A batch
// whose records cannot be read stays as it is; behind one no tombstone goes, as it
// may hold what the tombstone deletes. Records without a key stay.
package compact
