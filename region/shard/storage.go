package shard

import (
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Storage is one shard's place on one node's disk.
//
// The methods of the first group are called by the shard's goroutine alone; those
// of the second from any goroutine, also while Apply runs.
type Storage interface {
	raft.Storage

	// Save publishes entries and hard state to raft.Storage at once, and calls
	// done, in order and without blocking, when they are as safe as the node's
	// durability says. The data of entries belongs to the storage from then on.
	Save(hs *raftpb.HardState, entries []*raftpb.Entry, mustSync bool, done func(error))
	// Applied gives the entry up to which the tables have been applied.
	Applied() (index, term uint64)
	// Tables gives all rows, sorted by key.
	Tables(fn func(key, value []byte) error) error
	// Apply indexes batches and writes rows, as one. It does not flush.
	Apply(u *Update) error
	// Compact says that no follower needs entries up to index any more.
	Compact(index uint64)
	// OpenSnapshot opens the state as applied now, but for the batches that entries
	// up to after brought.
	OpenSnapshot(after uint64) (SnapshotSource, error)
	// BeginInstall begins to take in a snapshot of a later entry than is applied.
	BeginInstall(meta *raftpb.SnapshotMetadata) (SnapshotInstall, error)

	// FlushedIndex gives the last entry that is on this node's disk for sure.
	FlushedIndex() uint64
	// OnFlush sets what is called, from any goroutine, when FlushedIndex grew.
	OnFlush(fn func(index uint64))
	Read(q Query) ([]Stored, error)
	ReadOrigin(q OriginQuery) ([]Stored, error)
	ByTime(p rhumb.PartitionID, ts int64, limit rhumb.Offset) (Stored, bool, error)
	Latest(p rhumb.PartitionID, limit rhumb.Offset) (Stored, bool, error)
	Bytes(p rhumb.PartitionID) int64
	RetentionStart(p rhumb.PartitionID, r Retention) rhumb.Offset
	// SetCompaction says how a partition is compacted from now on; nil ends it.
	SetCompaction(p rhumb.PartitionID, c *Compaction)
	// Compacted is the offset below which compaction may have taken records.
	Compacted(p rhumb.PartitionID) rhumb.Offset
}

// What the storage takes.
type (
	// KV is a row.
	KV = storage.KV
	// LogStart is a partition's new log start.
	LogStart = storage.LogStart
	// BatchRef is a batch inside of an applied entry.
	BatchRef = storage.BatchRef
	// Update is what applying some entries changed.
	Update = storage.Update
	// Query asks for whole batches by local offset.
	Query = storage.Query
	// LargeBatchError is the error of a Query whose first batch is above its bound.
	LargeBatchError = storage.LargeBatchError
	// OriginQuery asks for whole batches of one origin life by origin offset.
	OriginQuery = storage.OriginQuery
	// Stored is a batch as it was read.
	Stored = storage.Stored
	// Place is where a batch lies in a file.
	Place = storage.Place
	// Retention is how much of a partition is kept.
	Retention = storage.Retention
	// Compaction is how a partition is compacted, and what limits it.
	Compaction = storage.Compaction
	// Held says what of a life edges have not carried yet.
	Held = storage.Held
	// Source is an origin without an offset.
	Source = storage.Source
)

// SnapshotSource gives a shard's state at one entry in pieces; io.EOF after the
// last. It must be closed soon.
type SnapshotSource interface {
	Metadata() *raftpb.SnapshotMetadata
	Next() ([]byte, error)
	Close() error
}

// SnapshotInstall takes a snapshot in. What was added means nothing until Commit
// is done. Nothing is saved between Commit and Finish; after Finish the tables
// are read anew.
type SnapshotInstall interface {
	Add(piece []byte, done func(error)) error
	Commit(hs *raftpb.HardState, done func(error))
	Finish() error
	Abort()
}

// OnDisk is a shard's part of a store as its Storage.
func OnDisk(s *storage.Shard) Storage { return diskStorage{s} }

type diskStorage struct{ *storage.Shard }

func (d diskStorage) OpenSnapshot(after uint64) (SnapshotSource, error) {
	return d.Shard.OpenSnapshot(after)
}

func (d diskStorage) BeginInstall(meta *raftpb.SnapshotMetadata) (SnapshotInstall, error) {
	return d.Shard.BeginInstall(meta)
}
