package statedb

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

// Batch gathers what becomes part of the database in one step. The first error
// of any call is given by [Batch.Commit]. It belongs to one goroutine.
type Batch struct {
	db    *DB
	batch *pebble.Batch
	key   []byte
	value []byte
	err   error
}

// NewBatch starts a batch; Commit or Discard ends it.
func (db *DB) NewBatch() *Batch { return &Batch{db: db, batch: db.pebble.NewBatch()} }

func (b *Batch) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Batch) set(key, value []byte) {
	b.key, b.value = key, value // keeps the space for the next call
	b.note(b.batch.Set(key, value, nil))
}

// SetApplied says how far the shard has applied.
func (b *Batch) SetApplied(shard rhumb.ShardID, a Applied) {
	value, err := appendApplied(b.value[:0], a)
	if err != nil {
		b.note(err)
		return
	}
	b.set(appendShard(b.key[:0], prefixApplied, shard), value)
}

// SetTable sets a pair of the shard's tables.
func (b *Batch) SetTable(shard rhumb.ShardID, key, value []byte) {
	b.key = append(appendShard(b.key[:0], prefixTable, shard), key...)
	b.note(b.batch.Set(b.key, value, nil))
}

// DeleteTable deletes a pair of the shard's tables.
func (b *Batch) DeleteTable(shard rhumb.ShardID, key []byte) {
	b.key = append(appendShard(b.key[:0], prefixTable, shard), key...)
	b.note(b.batch.Delete(b.key, nil))
}

// AddRef adds a dense index row.
func (b *Batch) AddRef(shard rhumb.ShardID, p rhumb.PartitionID, r *index.Ref) {
	b.set(appendDense(b.key[:0], shard, p, r.Base), appendRef(b.value[:0], r))
}

// DropRefs deletes the partition's dense rows with base offsets below end.
func (b *Batch) DropRefs(shard rhumb.ShardID, p rhumb.PartitionID, end rhumb.Offset) {
	from := appendDense(nil, shard, p, 0)
	b.note(b.batch.DeleteRange(from, appendDense(nil, shard, p, end), nil))
}

// SetPartition keeps the partition's log start; a partition without it does not exist.
func (b *Batch) SetPartition(shard rhumb.ShardID, p rhumb.PartitionID, start rhumb.Offset) {
	b.set(appendPartition(b.key[:0], prefixPartition, shard, p), appendPartitionRow(b.value[:0], start))
}

// DropPartition deletes what is kept of the partition.
func (b *Batch) DropPartition(shard rhumb.ShardID, p rhumb.PartitionID) {
	b.key = appendPartition(b.key[:0], prefixPartition, shard, p)
	b.note(b.batch.Delete(b.key, nil))
	from := appendPartition(nil, prefixDense, shard, p)
	b.note(b.batch.DeleteRange(from, after(from), nil))
	b.DropCompaction(shard, p)
}

// AddRun says that the shard's entries from index on are of that term.
func (b *Batch) AddRun(shard rhumb.ShardID, index, term uint64) {
	b.set(appendRun(b.key[:0], shard, index), appendRunRow(b.value[:0], term))
}

// DropRuns deletes the runs that start below index; the caller keeps the last one
// that covers what is still needed.
func (b *Batch) DropRuns(shard rhumb.ShardID, index uint64) {
	from := appendRun(nil, shard, 0)
	b.note(b.batch.DeleteRange(from, appendRun(nil, shard, index), nil))
}

// AddFile says that a log file has settled and is there.
func (b *Batch) AddFile(file uint64) {
	b.set(appendFile(b.key[:0], prefixFile, file), append(b.value[:0], rowVersion, 0, 0, 0, 0, 0, 0, 0))
}

// DropFile says that a settled log file may be gone: it is to be deleted.
func (b *Batch) DropFile(file uint64) {
	b.key = appendFile(b.key[:0], prefixFile, file)
	b.note(b.batch.Delete(b.key, nil))
}

// SetLogEnds keeps how far the log's files have come.
func (b *Batch) SetLogEnds(e LogEnds) {
	b.set(append(b.key[:0], prefixLog), appendLogEnds(b.value[:0], e))
}

// DropShard deletes all rows of a shard, before a snapshot takes their place.
func (b *Batch) DropShard(shard rhumb.ShardID) {
	for _, prefix := range []byte{prefixApplied, prefixDense, prefixPartition, prefixRun, prefixTable} {
		from := appendShard(nil, prefix, shard)
		b.note(b.batch.DeleteRange(from, after(from), nil))
	}
}

// Commit makes the batch part of the database, in memory; it is safe after a
// later [DB.Flush]. The batch cannot be used afterwards.
func (b *Batch) Commit() error {
	defer b.batch.Close()
	if b.err != nil {
		return b.err
	}
	if err := b.db.fs.failure(); err != nil {
		return err
	}
	if err := b.db.enter(); err != nil {
		return err
	}
	defer b.db.leave()
	return b.batch.Commit(pebble.NoSync)
}

// Discard drops the batch.
func (b *Batch) Discard() { b.batch.Close() }
