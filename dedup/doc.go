// Package dedup decides what is new: the accept rule for batches of other
// regions, and the tables of idempotent Kafka producers. It is pure: values in,
// values out, no clock, lock, goroutine or I/O. A shard's state machine runs it
// while it applies entries, so time comes from the entry.
//
// # The accept rule
//
// For each (partition, origin life) a region keeps a [Watermark]: the origin
// offset up to which it accounts for everything. A batch says where it stood at
// its origin (first, last), which offset before it was the last that carried
// something (prev), and the chain after it. In this order:
//
//	last <= watermark                 duplicate   it is here already, or was given up
//	first <= watermark < last         diverged    no log has two batches that overlap
//	prev > watermark                  missing     something before it has not come
//	prev <= watermark < first         accept, if the chain continues; else diverged
//
// A duplicate that ends at a point whose chain is still known (the watermark
// itself or one of [Watermark.Recent]) is compared with it, so that a source
// whose log was restored from an old copy and has grown since is found out.
//
// A [Skip] moves the watermark where no data does. It carries the chain at its
// end, so the chain can be verified always. A skip is one of two kinds:
//
//	foreign, compacted, marker        there is nothing for this edge: the floor stays
//	policy, retention, deleted, lost  there may have been something: the floor
//	                                  rises to the skip's end
//
// At and below the floor this region vouches for nothing: as a source it must say
// skip or gap there, never prev.
//
// # Producers
//
// A [Producer] remembers the epoch and the last five batches of one producer id
// in one partition. [Producer.Judge] is Kafka's rule, in this order: lower epoch
// fenced; higher epoch must start at 0; exact copy of a remembered batch is a
// duplicate; else the sequence must continue, and after 2^31-1 comes 0. Without
// state any first sequence is accepted.
//
// # Encoded watermark
//
// Integers little-endian. The length lets a later version append fields that
// an older reader skips.
//
//	 0  uint8  version, 1
//	 1  uint8  flags: high bit, an older reader must refuse it
//	 2  uint16 length of all, 110 in version 1
//	 4  uint16 origin region number
//	 6  16 B   origin life
//	22  int64  watermark, -1 if none
//	30  uint64 chain at the watermark
//	38  int64  floor, -1 if none
//	46  4 ×    (int64 offset, uint64 chain): earlier points, newest first;
//	           a chain of 0 means that there is no such point
//
// # Encoded producer
//
//	 0  uint8  version, 1
//	 1  uint8  number of batches, 0 to 5; high bit as above
//	 2  uint16 length of all, 16 + 24 × batches in version 1
//	 4  int16  epoch
//	 6  uint16 reserved, 0
//	 8  int64  time of last use, ms since 1970
//	16  n ×    (int32 first, int32 last, int64 base offset, int64 time), oldest first
package dedup
