// Package commitlog is a node's one log on disk: the Raft entries and hard state
// of all its shards, and at once the storage of the messages. What all shards have
// to write at a moment goes out with one vectored write and one flush.
//
// All integers are little-endian. Checksums are CRC32C.
//
// # Files
//
// The log is a row of files, <id as 16 hexadecimal digits>.log, ids growing and
// never used again. A removed file becomes <id>.free and is used for a later one:
// writing over old blocks costs the file system less than taking new ones. Ids may
// have gaps. A file is preallocated, and what lies behind its last frame means
// nothing. It starts with its header, twice, so that one bad sector does not hide
// what was flushed behind it:
//
//	   0  header          1024  checkpoint frame, then frames, each at a multiple of 8
//	 512  the same again
//
//	 0  8 B    "RHUMBLOG"
//	 8  uint16 version, 1
//	10  uint16 header length, 64 in version 1
//	12  uint32 CRC of the header with this field as 0
//	16  uint64 file id
//	24  16 B   salt, random
//	40  uint32 flags; unknown ones in the high 16 bits are refused
//	44  uint32 reserved, 0
//	48  uint64 id of the file before, 0 if none
//	56  uint64 where the frames of the file before end
//
// Salt, file id and position go into each frame's CRC: an old frame of a recycled
// file, and a frame copied to elsewhere, is never valid.
//
// # The newest file
//
// Each file names the one before it, but nothing in the files names the last one. So
// NEWEST does, a file beside them with two slots of 512 bytes that are written in turn;
// the one with the higher number counts. It is written when a file is made, after its
// name is safe and before anything is written to it, and before the last files go:
// both files that it names are there, unless a later one was begun. Logs of older
// versions have none.
//
//	 0  8 B    "RHUMBNEW"
//	 8  uint16 version, 1
//	10  uint16 flags; unknown ones in the high 8 bits are refused
//	12  uint32 CRC of bytes 0 to 39 with this field as 0
//	16  uint64 number of the record, from 1
//	24  uint64 file that was made last; it may not have been begun
//	32  uint64 file that was written to then, 0 if none
//
// # Frame
//
// A frame is what one shard persists in one go. Hard state and entries of one
// frame stand or fall together.
//
//	 0  4 B    "RLF1"
//	 4  uint32 CRC of salt, file id, position (uint64), and the header from byte 8 on
//	 8  uint32 length of the frame without padding
//	12  uint32 CRC of the frame behind its header
//	16  uint8  version, 1
//	17  uint8  kind: 1 entries, 2 checkpoint, 3 snapshot data, 4 snapshot
//	18  uint16 header length, 80 in version 1
//	20  uint32 flags: 1 hard state present; unknown ones in the high 16 bits are refused
//	24  uint32 shard
//	28  uint32 entry count
//	32  uint64 flushed mark: file id
//	40  uint64 flushed mark: position
//	48  uint64 hard state: term
//	56  uint64 hard state: vote
//	64  uint64 hard state: commit
//	72  uint32 length of extra
//	76  uint32 reserved, 0
//	80  entry table, 24 bytes each:
//	      0  uint64 index
//	      8  uint64 term
//	     16  uint32 length of data
//	     20  uint8  type
//	     21  3 B    reserved, 0
//	..  extra: conf state of a snapshot, or the shards of a checkpoint
//	..  data of the entries, one after the other
//	..  zeros up to a multiple of 8
//
// # Checkpoint
//
// The first frame of each file carries, as extra, what must not be forgotten with
// the files before it, as it was after their last frame:
//
//	0  uint32 number of shards
//	4  uint32 reserved, 0
//	8  the shards, by id:
//	     0  uint32 length of this shard's fields, 64 + conf state in version 1
//	     4  uint32 shard
//	     8  uint64 hard state: term, then uint64 vote, then uint64 commit
//	    32  uint64 index of the last entry dropped, then uint64 its term
//	    48  uint64 index of the last entry, then uint64 its term
//	    64  uint32 length of the conf state
//	    68  conf state
//
// # Meaning
//
// Frames count in order, and the last wins: an entry with index i cancels its
// shard's earlier entries from i on; a snapshot frame (i, term) cancels all of
// them, and makes the snapshot data frames of the same index before it count.
//
// # Torn or damaged
//
// Each frame carries the flushed mark: how far the log was known to be flushed
// when the frame was written. Frames beyond damage are found by their magic, and
// the highest mark in any of them decides. Damage at or above it is the torn tail
// of a crash: it and all behind it is cut, and reported. Damage below it is
// corruption of something that was promised: an error, which names file and
// position.
//
// The log begins with the oldest file whose checkpoint may be trusted: the file
// before it was flushed, or removed, or there never was one. Without such a file
// there is no log. A file whose header is lost is judged like any damage: its frames'
// checksums, run backwards, tell what they were seeded with, and so which of them
// belong together and what their marks are. A file with neither a header of its own
// nor frames was prepared and not begun.
//
// Before recovery counts anything above the mark as kept, it writes it again and
// flushes it, because after a failed fsync a page may look fine and yet never have
// reached the disk. The cut file is shortened to its end, and a new file follows, so
// that no rest of the cut ever comes back.
//
// # Goroutines
//
// All belong to [Log.Run], which joins them.
//
//   - writer: woken by Append and by the syncer. It turns the queue into rounds of
//     at most 8 MiB and writes them; it owns the active file. It writes the next
//     round while the last one is being flushed.
//   - syncer: woken by the writer, by Flush, and by the flush timer, which runs only
//     while something is unflushed. It flushes and calls done and Flushed.
//   - preparer: woken when the active file is half full; makes the next file, and under
//     Fsync fills it with zeros until it is needed.
//
// An idle log has no timer. Outside of Run, a frame that Append refuses starts a
// goroutine that ends when it has called the callbacks.
//
// # Lock order
//
// Log.mu, fileSet.mu and shardStates.mu are never held together, and none of them
// during I/O (fileSet.mu: opening a handle excepted) or a callback.
package commitlog
