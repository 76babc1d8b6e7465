package storage

import (
	"fmt"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Durability says what a Save waits for before it is done.
type Durability = commitlog.Durability

// The durabilities. What leaves the region is flushed whatever the durability:
// see [Shard.FlushedIndex].
const (
	DurabilityFsync    = commitlog.Fsync    // on disk (default)
	DurabilityInterval = commitlog.Interval // written; flushed at most FlushInterval later
	DurabilityNone     = commitlog.None     // written
)

// Config says where a node's data is and what it may use.
type Config struct {
	// FS is the file system. Required.
	FS vfs.FS
	// Dir is the data directory; it is made if absent. Required.
	Dir string
	// Mesh is written to a new data directory; an existing one of another mesh is
	// refused. Zero accepts any mesh, and a new directory keeps zero.
	Mesh rhumb.UUID
	// Shards is the number of data shards: shards 0 to Shards exist, 0 being the
	// region's own. An existing directory keeps the number it was made with, and
	// another one is refused; 0 takes what is there, 16 if it is new.
	Shards int

	// Durability is what a Save waits for. Default fsync.
	Durability Durability
	// Direct lets large writes of the log pass the system's page cache by, and reads of
	// what was written so: both take less of the processor.
	Direct bool
	// ProbeDirect has Direct only where it pays, as a trial at each start says
	// ([vfs.FS.TryDirect]); Events.LogWrites tells what came out.
	ProbeDirect bool
	// FlushInterval is how long interval durability waits. Default 50 ms.
	FlushInterval time.Duration
	// FileSize is the length of a log file in bytes. Default 64 MiB.
	FileSize int64

	// TailCache is the budget for Raft entries in memory that are on disk already,
	// in bytes, for all shards together. Default 64 MiB.
	TailCache int64
	// ReadCache is the budget for blocks of log files that were read past the page cache,
	// in bytes, at least 4 MiB. Default 32 MiB; negative lets reads go through the page
	// cache. Without Direct there are none.
	ReadCache int64
	// IndexCache is the budget for decoded index blocks in bytes. Default 16 MiB.
	IndexCache int64
	// StateCache and StateMemTable are the state database's block cache and memtable
	// in bytes (up to three memtables exist at a time). Default 8 MiB each.
	StateCache    int64
	StateMemTable int64

	// CompactKeys is the budget for the table of keys of a compaction in bytes. Default
	// 32 MiB, 390,000 keys; what does not fit takes another pass.
	CompactKeys int64
	// CompactRate is how many bytes a second compaction reads at most; it writes no
	// more than that. Default 32 MiB; negative means no limit.
	CompactRate int64

	// MinFree is the free space in bytes below which writers are refused. 0 means
	// 5 % of the disk and at least 1 GiB; negative means no limit.
	MinFree int64
	// Reserve is the length of the preallocated file that is given back to the disk
	// when it is nearly full, for what must still be written. 0 means 64 MiB;
	// negative means none.
	Reserve int64
	// SpaceInterval is how often free space is looked at. Default 1 s.
	SpaceInterval time.Duration

	// CopyForwardFiles is how many closed log files may wait for a shard that does
	// not apply before its entries are copied to the end of the log. Default 4.
	CopyForwardFiles int

	// Events are told what an operator may want to know. Any may be nil.
	Events Events
}

// Events are hooks that the wiring turns into logs and metrics. They are called
// from any goroutine and must not block.
type Events struct {
	TailCut     func(file uint64, position, bytes int64) // torn end of the log was cut at start
	LogWrites   func(direct bool, why error)             // at start: whether Direct is on, and why not if a trial said no
	Settled     func(file uint64, batches uint64)        // a log file got its index
	Removed     func(file uint64)                        // a log file was deleted by retention
	CopyForward func(shard rhumb.ShardID, entries int)   // a stuck shard's entries were copied
	LowSpace    func(low bool, free, minFree uint64)     // crossed min_free, either way
	Failed      func(err error)                          // the store ended; recover at the next start
	SettleError func(err error)                          // settling or deleting failed; it is tried again
	Damaged     func(d Damage)                           // a batch could not be read: once for each file
}

const (
	defaultShards   = 16
	maxShards       = 1 << 12
	minFreePercent  = 5
	minFreeAtLeast  = 1 << 30
	defaultReserve  = 64 << 20
	settleRetry     = 5 * time.Second
	settleRow       = 8           // files that settle together at most, and before dead ones are looked for
	compactPause    = time.Second // before a pass that could not end goes on
	maxReadAttempts = 16
)

func (c *Config) setDefaults() error {
	if c.FS == nil || c.Dir == "" {
		return fmt.Errorf("storage: config needs FS and Dir")
	}
	if c.Shards < 0 || c.Shards > maxShards {
		return fmt.Errorf("storage: %d shards, must be 1 to %d", c.Shards, maxShards)
	}
	for _, d := range []struct {
		p *int64
		v int64
	}{{&c.FileSize, 64 << 20}, {&c.TailCache, 64 << 20}, {&c.ReadCache, 32 << 20}, {&c.IndexCache, 16 << 20}, {&c.Reserve, defaultReserve},
		{&c.CompactKeys, 32 << 20}, {&c.CompactRate, 32 << 20}} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	if c.SpaceInterval <= 0 {
		c.SpaceInterval = time.Second
	}
	if c.CopyForwardFiles <= 0 {
		c.CopyForwardFiles = 4
	}
	return nil
}
