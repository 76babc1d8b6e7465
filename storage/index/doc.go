// Package index finds batches: by local offset, by time, and by their offset at
// the origin.
//
// A [Partition] is one partition's index. Its tail is dense and in memory: a
// [Ref] per batch of files that have not settled. Older batches are in tables,
// one [Table] per settled file, of which memory holds one [Part] per partition;
// their blocks are read on demand through a [Cache] with a budget in bytes.
//
// Readers take a [View] under their owner's lock and walk it without one: what a
// view shares is never changed in place. A table whose file was removed fails
// with [ErrGone]; the reader takes a new view and starts again.
//
// # Table
//
// A table is a run of blocks and a directory that end a file. The file is either
// the index of an adopted log file (name .idx, nothing but a header in front) or
// a segment (package segment, the batches in front). Integers are little-endian,
// CRCs are CRC32C. A reader skips what a longer header appends, and refuses a
// flags byte with a bit that it does not know.
//
//	header    32 bytes
//	batches   segments only
//	blocks    sorted by shard, partition, base offset
//	handles   one group per partition
//	directory
//	footer    64 bytes
//
// # Header
//
//	 0  8 B    magic, "RHUMBIDX" or "RHUMBSEG"
//	 8  uint8  version, 1
//	 9  uint8  flags, 0
//	10  uint16 header length, 32
//	12  uint32 reserved, 0
//	16  uint64 file: the log file that is indexed, or the segment's own id
//	24  uint32 reserved, 0
//	28  uint32 CRC of bytes 0 to 27
//
// # Block
//
// The refs of one partition, at most 256 of them. The marks are the vector at
// the block's start: per origin life the last origin offset that lies before the
// block, and the floor. Each life that the block's refs name is among them.
//
//	 0  uint16 magic, 0xB10C
//	 2  uint8  version, 1
//	 3  uint8  flags, 0
//	 4  uint16 header length, 40
//	 6  uint16 number of refs
//	 8  uint32 shard
//	12  uint32 number of marks
//	16  uint64 partition
//	24  int64  base offset of the first ref
//	32  uint32 length of the block
//	36  uint32 CRC of the whole block with this field zero
//	40  marks, 40 bytes each:
//	       0 16 B life, 16 uint16 region, 18 6 B zero, 24 int64 watermark, 32 int64 floor
//	    refs, each nine varints (u unsigned, s zigzag), relative to the ref before:
//	       u base - (last + 1)        u last - base          u size
//	       s position - end before    s raft index           u mark number
//	       s origin first - (last origin offset of that life + 1)
//	       s max timestamp            s append time
//
// # Handles
//
//	0  uint32 number of blocks
//	4  uint32 CRC of the handles
//	8  handles, 56 bytes each: int64 base, int64 last, int64 max timestamp,
//	   int64 retention time, uint64 bytes, uint64 position, uint32 length, uint32 refs
//
// # Directory
//
//	0  uint32 number of shards, uint32 number of parts
//	8  shards, 24 bytes each: uint32 shard, uint32 zero, uint64 last raft index
//	   that lives in this file or an older one, uint64 its term
//	   parts, sorted: uint32 shard, uint32 number of marks, uint64 partition,
//	   int64 base, int64 last, int64 max timestamp, int64 retention time,
//	   uint64 bytes, uint64 batches, uint64 position of handles, uint32 length of
//	   handles, uint32 zero (80 bytes), then the marks at its start as in a block, and
//	   as many marks at its end, of the same lives in the same order
//
// # Footer
//
//	 0  8 B    magic, "RIDXFOOT"
//	 8  uint8  version, 1
//	 9  uint8  flags, 0
//	10  uint16 footer length, 64
//	12  uint32 CRC of the directory
//	16  uint64 position of the directory
//	24  uint64 length of the directory
//	32  uint64 position of the first block
//	40  uint64 number of batches
//	48  12 B   reserved, 0
//	60  uint32 CRC of bytes 0 to 59
package index
