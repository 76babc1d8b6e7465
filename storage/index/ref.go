package index

import (
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Source is an origin without an offset: whose records they are.
type Source struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life
}

// Key names a partition's log within a node. Keys sort by shard, then partition.
type Key struct {
	Shard     rhumb.ShardID
	Partition rhumb.PartitionID
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	switch {
	case k.Shard != o.Shard:
		if k.Shard < o.Shard {
			return -1
		}
		return 1
	case k.Partition < o.Partition:
		return -1
	case k.Partition > o.Partition:
		return 1
	}
	return 0
}

// Ref says what one stored batch holds and where it is.
type Ref struct {
	Base  rhumb.Offset // local offset of the first record
	Span  uint32       // last - base + 1, >= 1; the same at the origin
	Size  uint32       // envelope and batch in bytes
	First rhumb.Offset // offset of the first record at the origin
	// Source is shared by all refs of a life, so a ref stays small.
	Source     *Source
	MaxTime    int64  // largest record timestamp, ms, as the client said
	AppendTime int64  // when the origin stored it, ms
	Raft       uint64 // index of the Raft entry that carried it
	// File is where the batch lies, and Pos the position of its envelope there.
	// File 0 means: in the Raft entry's data, wherever that is, at Pos.
	File uint64
	Pos  uint64
}

// Last is the local offset of the batch's last record.
func (r *Ref) Last() rhumb.Offset { return r.Base + rhumb.Offset(r.Span) - 1 }

// OriginLast is the offset of the batch's last record at its origin.
func (r *Ref) OriginLast() rhumb.Offset { return r.First + rhumb.Offset(r.Span) - 1 }

// RetentionTime is the time by which retention judges the batch: what the client
// said, but never later than the append, or a wrong clock would keep it for ever;
// the append where the client said nothing.
func (r *Ref) RetentionTime() int64 {
	if r.MaxTime < 0 {
		return r.AppendTime
	}
	return min(r.MaxTime, r.AppendTime)
}

// Mark is what is known of one origin life at a place of a partition's log.
type Mark struct {
	Source    *Source
	Watermark rhumb.Offset // last origin offset before that place, NoOffset if none
	Floor     rhumb.Offset // up to which the log no longer holds its records, NoOffset if none
}

// Vector is the marks of all lives at a place. A vector is never changed in
// place once it is shared.
type Vector []Mark

// Watermark gives the life's last origin offset, NoOffset if it has none.
func (v Vector) Watermark(s Source) rhumb.Offset {
	for i := range v {
		if *v[i].Source == s {
			return v[i].Watermark
		}
	}
	return rhumb.NoOffset
}

// find gives the number of the mark of s, -1 if there is none.
func (v Vector) find(s *Source) int {
	for i := range v {
		if v[i].Source == s || *v[i].Source == *s {
			return i
		}
	}
	return -1
}

// advance moves the life of r over it, in place; the caller owns v.
func (v Vector) advance(r *Ref) Vector {
	i := v.find(r.Source)
	if i < 0 {
		return append(v, Mark{Source: r.Source, Watermark: r.OriginLast(), Floor: rhumb.NoOffset})
	}
	v[i].Watermark = max(v[i].Watermark, r.OriginLast())
	return v
}

// clone gives a copy that the caller owns.
func (v Vector) clone() Vector { return slices.Clone(v) }
