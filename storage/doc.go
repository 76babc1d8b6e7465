// Package storage keeps a node's data: the commit log with all shards' Raft
// entries, which are at once the messages; the index that finds batches in it; and
// the state database with the tables of the shards' state machines. It knows no
// network, leader or protocol.
//
// # One write
//
// A shard's goroutine saves what Raft gives it ([Shard.Save]): one frame in the
// log, which is flushed together with what other shards save. When Raft commits an
// entry, the shard applies it ([Shard.Apply]): one batch in the state database,
// not flushed, with the tables' changes, a row per message batch and the applied
// index. Readers find batches through the index, in the tail cache or in the
// file. Nothing is written twice but the rows, and those go when the file settles.
//
// # Settling and deleting
//
// A closed log file settles when all entries that live in it are applied: the
// state database is flushed, an index file is written and put in place, and the
// rows go. From then on no restart reads the log file. A log file is deleted when
// the log starts of all its partitions have passed its batches, after the state
// database has made those log starts safe; then goes its index. A reader that a
// deletion overtakes finds the file pinned, or looks again and finds the new log
// start.
//
// # Compaction
//
// A goroutine of its own makes passes over partitions that are to be compacted
// ([Shard.SetCompaction]). A pass reads the partition's settled parts, asks package
// compact which records stay, and copies these into segments (package segment), a
// group of parts at a time, many small partitions into one segment. A segment is safe
// under its name before one batch of the state database names it and says, for each
// of its partitions, in which files they lie now and how far; then readers see it,
// and the parts that it replaced are dead. What a log start passes meanwhile stays
// passed; a partition that is dropped, or replaced by a snapshot, makes its part of
// the segment void. While a snapshot is installed nothing is swapped.
//
// Below what a pass has covered a partition may have holes; reads know up to where.
// A snapshot of a compacted partition brings all its batches: if a follower kept
// those it has, it would keep what tombstones deleted that have gone at the sender.
//
// # Restart
//
// The state database is the state after some entry of each shard, at most as new
// as the log (package statedb). Opening reads the directories of the index files
// and the frames of the files that have not settled; Raft then applies again what
// lies above the applied index, and nothing below it.
//
// Missing files: the state database has a row for each settled file that must be
// there, and the newest file that there was. A file is deleted in this order, each
// step safe before the next: its row, the log file, the index. Files that have not
// settled are never deleted; each names the one before it, and the log names the
// newest. So whatever else is
// missing was taken away: a log file with a row, or whose index holds something that
// log starts have not passed; an index of a file with a row; a file that another
// names; what the newest should be. It is refused by name, and an index is not made
// again, since only the shards know what in an entry is a batch. Apart from that a
// partition's offsets have no holes, which each read checks. Directories of
// older versions have no such rows: they are written at the first start.
//
// Crash cases: an index file without its log file is what a deletion left, and is
// removed. A settled log file without index and row is a deletion that the crash took
// back, and is removed again.
// Rows of settled files are ignored. Index files appear by rename, whole.
//
// # Data directory
//
//	FORMAT       64 bytes, little-endian:
//	              0  8 B    "RHUMBFMT"
//	              8  uint16 version of the writer
//	             10  uint16 smallest version that may read the directory
//	             12  uint16 length, 64; later versions may append
//	             14  2 B    reserved, 0
//	             16  16 B   id of the data directory
//	             32  16 B   id of the mesh
//	             48  uint32 number of data shards
//	             52  8 B    reserved, 0
//	             60  uint32 CRC32C of bytes 0 to 59
//	LOCK         held while the store is open
//	RESERVE      preallocated space, given back to the disk when it is nearly full
//	log/         the commit log (package commitlog)
//	index/       <log file id>.idx (package index)
//	segments/    <id>.seg (package segment), ids from 2^63 on; from format 2 on
//	state/       the state database (package statedb)
//
// # Goroutines
//
// All belong to [Store.Run], which joins them; Pebble's own end with Close or Kill.
//
//   - commitlog: [commitlog.Log.Run]; calls the callbacks of Save.
//   - compactor: woken by SetCompaction; writes segments.
//   - settler: woken by a new log file, by log starts and drops, and by the shards
//     that it waits for. It alone writes index files and deletes files, segments too.
//   - space: looks at the free space every second and keeps the reserve.
//   - state-db: waits for the state database to fail, and closes it then.
//
// What readers are likely to ask for next is prepared by one or two that end when nothing
// waits, and are waited for by Close and Kill. Package blocks
// has a few that read ahead, which end by themselves; Close waits for them.
//
// # Lock order
//
// Store.settling, Shard.saving, Shard.mu, fileSet.mu, entryTable.mu; tailCache.mu,
// segmentSet.mu, space.mu and those of package blocks are taken alone. None is held during I/O, but for settling, and for
// saving while a stuck shard's entries are copied forward. Views of the index are
// read without a lock.
package storage
