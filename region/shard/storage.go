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
}

var _ Storage = (*storage.Shard)(nil)

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
	// OriginQuery asks for whole batches of one origin life by origin offset.
	OriginQuery = storage.OriginQuery
	// Stored is a batch as it was read.
	Stored = storage.Stored
	// Retention is how much of a partition is kept.
	Retention = storage.Retention
)

// Installer is a storage that can be filled up by a snapshot.
type Installer interface {
	// Install replaces all that the shard has by a snapshot: entries, tables, and
	// batches where the snapshot's are new. done is called once it is flushed.
	Install(s *Snapshot, done func(error))
}

// Snapshot is a shard's state at an entry.
type Snapshot struct {
	Index, Term uint64
	Conf        *raftpb.ConfState
	HardState   *raftpb.HardState // to be stored with it; nil: unchanged
	Rows        []KV
	Batches     []Stored // those that the receiver named as missing
}
