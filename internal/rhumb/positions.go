package rhumb

import (
	"encoding/hex"
	"fmt"
)

// Offset is a record's place in a partition's log. Offsets of a life only grow.
type Offset int64

// NoOffset means that there is no such offset: the watermark and the floor of
// a life of which nothing is known yet, or the prev of a life's first batch.
const NoOffset Offset = -1

// ShardID numbers the Raft groups of a region. Shard 0 also keeps the region's
// own metadata.
type ShardID uint32

// PartitionID identifies a partition's log within its shard: it is the Raft
// index of the entry that created it, so it is unique there for ever.
type PartitionID uint64

// PartitionRef finds a partition's log inside a region.
type PartitionRef struct {
	Shard ShardID
	ID    PartitionID
}

// Life is the random id that a partition's log gets when it starts from
// nothing: created, re-created, or reopened after its shard was lost.
type Life [16]byte

// NewLife makes a random life.
func NewLife() Life { return Life(NewUUID()) }

// IsZero reports whether the life is unset.
func (l Life) IsZero() bool { return l == Life{} }

// String gives 32 hexadecimal digits.
func (l Life) String() string { return hex.EncodeToString(l[:]) }

// MarshalText gives the same form as String.
func (l Life) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the form of String.
func (l *Life) UnmarshalText(b []byte) error { return (*UUID)(l).UnmarshalText(b) }

// Origin is where a record was first published: its identity in the mesh.
type Origin struct {
	Region RegionNumber
	Life   Life
	Offset Offset
}

// String gives region:life@offset.
func (o Origin) String() string { return fmt.Sprintf("%d:%s@%d", o.Region, o.Life, o.Offset) }

// Generation fences the past: it grows with each role change of a namespace
// and with each reset of a subscription.
type Generation struct {
	Number uint64
	Region RegionNumber
}

// Less orders generations: by number, then by region.
func (g Generation) Less(o Generation) bool {
	if g.Number != o.Number {
		return g.Number < o.Number
	}
	return g.Region < o.Region
}

// Reason says why offsets carry nothing for a reader: of a skip or of a gap.
type Reason uint8

// Reasons of skips (the offsets hold nothing for this edge) and of gaps (records
// existed and will never come). Values are stored: add only at the end.
const (
	ReasonNone      Reason = iota
	ReasonForeign          // skip: offsets taken by records of other origins
	ReasonPolicy           // skip: before the start of the edge
	ReasonCompacted        // skip: compacted away at the source
	ReasonMarker           // skip: transaction markers and aborted records
	ReasonRetention        // gap: the source's retention dropped them
	ReasonDeleted          // gap: DeleteRecords at the source dropped them
	ReasonLost             // gap: no reachable region holds them any more
	ReasonBacklog          // gap: the source kept them for the destination up to its limit, then dropped them
	ReasonSkipped          // gap: an operator skipped them
	ReasonDiverged         // gap: copies of them differ, their origin is gone, and an operator left both as they are
)

// ReasonLast is the last reason that this version knows.
const ReasonLast = ReasonDiverged

var reasonNames = [...]string{"none", "foreign", "policy", "compacted", "marker", "retention", "deleted", "lost", "backlog", "skipped by operator", "copies differ"}

// String gives the reason's word.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// IsGap reports whether records existed that will never come.
func (r Reason) IsGap() bool { return r >= ReasonRetention && r <= ReasonLast }
