package statedb

import (
	"encoding/binary"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
)

const (
	compactionSize = 64
	markSize       = 16
	// maxCompactionFiles bounds the files of one partition.
	maxCompactionFiles = 1 << 24
)

// Compaction is how far a partition's log has been compacted, and where it lies.
type Compaction struct {
	compact.State
	// Holes below this offset are compaction's, here or where the log came from.
	Holes rhumb.Offset
	// Files hold, in order, what there is below Covered: segments, and log files that
	// were left as they are. Other log files hold nothing of the partition below it.
	Covered rhumb.Offset
	Files   []uint64
	// Void: log files up to it, but those in Files, hold nothing of the partition: a
	// snapshot brought all of it anew.
	Void uint64
}

// Counts tells if what a log file has of the partition from base on is still of it.
func (c *Compaction) Counts(file uint64, base rhumb.Offset) bool {
	return slices.Contains(c.Files, file) || base >= c.Covered && file > c.Void
}

func appendCompaction(b []byte, c *Compaction) []byte {
	le := binary.LittleEndian
	b = append(b, rowVersion, byte(len(c.Marks)), 0, 0)
	b = le.AppendUint32(b, uint32(len(c.Files)))
	for _, o := range [...]rhumb.Offset{c.Cleaned, c.Tombstone, c.Waiting, c.Held, c.Holes, c.Covered} {
		b = le.AppendUint64(b, uint64(o))
	}
	b = le.AppendUint64(b, c.Void)
	for _, m := range c.Marks {
		b = le.AppendUint64(le.AppendUint64(b, uint64(m.Below)), uint64(m.At))
	}
	for _, f := range c.Files {
		b = le.AppendUint64(b, f)
	}
	return b
}

func parseCompaction(b []byte) (c Compaction, err error) {
	if err := checkRow("compaction", b, compactionSize); err != nil {
		return c, err
	}
	le := binary.LittleEndian
	marks, files := int(b[1]), int64(le.Uint32(b[4:]))
	if marks > compact.MaxMarks || files > maxCompactionFiles || int64(len(b)) < compactionSize+int64(marks)*markSize+files*8 {
		return c, corruptf("compaction row of %d bytes with %d marks and %d files", len(b), marks, files)
	}
	for i, o := range [...]*rhumb.Offset{&c.Cleaned, &c.Tombstone, &c.Waiting, &c.Held, &c.Holes, &c.Covered} {
		*o = rhumb.Offset(le.Uint64(b[8+8*i:]))
	}
	c.Void = le.Uint64(b[56:])
	b = b[compactionSize:]
	for range marks {
		c.Marks = append(c.Marks, compact.Mark{Below: rhumb.Offset(le.Uint64(b)), At: int64(le.Uint64(b[8:]))})
		b = b[markSize:]
	}
	for range files {
		c.Files = append(c.Files, le.Uint64(b))
		b = b[8:]
	}
	return c, nil
}

// SetCompaction keeps how far a partition has been compacted.
func (b *Batch) SetCompaction(shard rhumb.ShardID, p rhumb.PartitionID, c *Compaction) {
	b.set(appendPartition(b.key[:0], prefixCompact, shard, p), appendCompaction(b.value[:0], c))
}

// DropCompaction forgets it.
func (b *Batch) DropCompaction(shard rhumb.ShardID, p rhumb.PartitionID) {
	b.key = appendPartition(b.key[:0], prefixCompact, shard, p)
	b.note(b.batch.Delete(b.key, nil))
}

// AddSegment says that a segment is there.
func (b *Batch) AddSegment(file uint64) {
	b.set(appendFile(b.key[:0], prefixSegment, file), append(b.value[:0], rowVersion, 0, 0, 0, 0, 0, 0, 0))
}

// DropSegment says that a segment may be gone: it is to be deleted.
func (b *Batch) DropSegment(file uint64) {
	b.key = appendFile(b.key[:0], prefixSegment, file)
	b.note(b.batch.Delete(b.key, nil))
}

// Compactions calls fn with what is kept of each partition of the shard.
func (db *DB) Compactions(shard rhumb.ShardID, fn func(rhumb.PartitionID, Compaction) error) error {
	return db.scan(appendShard(nil, prefixCompact, shard), func(k, v []byte) error {
		if len(k) != partitionKeySize {
			return corruptf("compaction key of %d bytes", len(k))
		}
		c, err := parseCompaction(v)
		if err != nil {
			return err
		}
		return fn(rhumb.PartitionID(tail(k)), c)
	})
}

// Segments gives the segments that must be there, by id.
func (db *DB) Segments() (ids []uint64, err error) {
	err = db.scan([]byte{prefixSegment}, func(k, v []byte) error {
		if len(k) != 1+8 {
			return corruptf("segment key of %d bytes", len(k))
		}
		ids = append(ids, tail(k))
		return checkRow("segment", v, fileSize)
	})
	return ids, err
}
