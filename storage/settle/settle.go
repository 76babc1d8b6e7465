// Package settle decides what becomes of the commit log's closed files. It is
// pure: package storage does what it says.
//
// Files settle in the order of their ids. A closed file is adopted: it stays as
// it is and gets an index (package index), once each entry that lives in it is
// applied. A shard that does not apply would hold all files behind it, so after a
// number of them its entries are copied to the end of the log; they then live
// there. [Adopt] is the only way to settle that is chosen: its cost, scattered reads
// of small partitions, is paid by readers only. What a compacted partition has in
// settled files is rewritten into segments later (package compact).
package settle

import "github.com/rhumbmq/rhumb/internal/rhumb"

// Do says what to do with the oldest file that has not settled.
type Do uint8

// What can be done.
const (
	Nothing Do = iota // there is no closed file
	Wait              // until the blocking shards have applied their entries in it
	Copy              // copy the blocking shards' entries to the end of the log, then look again
	Adopt             // write its index
)

// Shard is how far a shard is, seen from a file.
type Shard struct {
	ID      rhumb.ShardID
	End     uint64 // last entry that lives in the file or an older one
	Applied uint64
}

// Plan decides about the oldest unsettled file. closed is how many unsettled files
// are closed, that one included; copyAfter is how many may wait before entries are
// copied. blocking gives the shards that have not applied what lives in it.
func Plan(closed, copyAfter int, shards []Shard) (do Do, blocking []Shard) {
	if closed == 0 {
		return Nothing, nil
	}
	for _, s := range shards {
		if s.Applied < s.End {
			blocking = append(blocking, s)
		}
	}
	switch {
	case len(blocking) == 0:
		return Adopt, nil
	case closed >= copyAfter:
		return Copy, blocking
	}
	return Wait, blocking
}
