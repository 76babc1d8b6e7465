// Package statedb keeps the applied state of a node's shards in one Pebble
// database: the state machines' tables, how far each shard has applied, the log
// starts, and the dense index rows of files that have not settled.
//
// # Never ahead of the log
//
// Pebble's own write-ahead log is off, and no batch is synced: what is in memory
// only is lost in a crash, and the shard applies it again from the commit log.
// All that one Raft entry changes is one Pebble batch with the applied index in
// it, so the database is always the state after some entry. Every sync that
// Pebble makes goes through an adapter of the storage's file system that flushes
// the commit log first. A table file can hold only what was applied before it
// was synced, and an entry is queued to the log before it is applied; so what the
// database can remember after a crash, the log remembers too.
//
// # Failure
//
// The first write or sync that fails ends the database: the adapter refuses
// everything after it, and the error is kept. Pebble is not told if that was a change
// of its manifest, which it would end the process for. It retries failed flushes
// without a pause; the adapter makes it wait until the database is closed. The
// state is recovered at the next start.
//
// # Keys
//
// Integers in keys are big-endian, so that rows sort.
//
//	'a' shard uint32                                      applied state
//	'c' shard uint32, partition uint64                      how far the partition is compacted
//	'd' shard uint32, partition uint64, base offset uint64  dense index row
//	'f' file uint64                                       a log file that has settled and is there
//	'l'                                                   how far the log's files have come
//	'p' shard uint32, partition uint64                      partition state
//	'r' shard uint32, index uint64                          first index of a run of one term
//	's' file uint64                                       a segment that is there
//	't' shard uint32, key                                   table pair of the state machine
//
// # Values
//
// Each but the table's starts with a version byte, 1. Integers are little-endian.
//
//	applied    version, 3 B zero, uint32 length of conf state, uint64 index, uint64 term, conf state
//	compacted  version, uint8 number of marks, 2 B zero, uint32 number of files, int64
//	           cleaned, int64 lowest tombstone, int64 lowest that waits for its time, int64
//	           lowest that an edge has to carry, int64 holes, int64 covered, uint64 void; marks, oldest first: int64 below, int64 time in ms;
//	           files that hold the partition below covered, in order: uint64 each
//	dense row  version, 3 B zero, uint32 span, uint32 size, uint16 region, 2 B zero,
//	           16 B life, int64 first at the origin, int64 max timestamp, int64 append
//	           time, uint64 raft index, uint64 file, uint64 position
//	file       version, 7 B zero (also of a segment)
//	log        version, 7 B zero, uint64 all files up to it have settled, uint64 newest file
//	partition  version, 7 B zero, int64 log start
//	run        version, 7 B zero, uint64 term
//
// A row 'c' outlives the replacement of its shard by a snapshot, as the files do. Rows
// 'c' and 's' come with the first compaction, which also raises the directory's
// minimum reader.
//
// Rows 'f' and 'l' are not in databases that older versions made, and those versions
// do not look at them. A file's row goes, safely, before the file does.
//
// # Goroutines
//
// Pebble's own, which end with [DB.Close] and [DB.Kill].
package statedb
