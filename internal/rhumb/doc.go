// Package rhumb holds the shared words of the system as types. It imports only
// the standard library, and every other package may import it.
//
// # The system on one page
//
// A mesh is all regions that share one configuration store. Each [RegionName]
// has a [RegionNumber] that is given once and never used again. A region stores
// its own copy of every [Topic] on its own disks.
//
// A topic has partitions. A partition's log has a [Life]: a random id that it
// gets when the log starts from nothing. A record's identity everywhere in the
// mesh is its [Origin]: the region, the life and the [Offset] at which it was
// first published.
//
// Inside a region each partition lives in one shard ([ShardID]), which is a
// Raft group. What a producer sends in one piece is a batch; it is stored as it
// came, with an envelope (package codec) in front that holds its origin.
//
// For each origin life a partition keeps a watermark, the origin offset up to
// which this region accounts for everything, and a floor, the offset up to which
// it vouches for nothing. A batch from another region is accepted only if it
// continues the watermark (package dedup). Data and watermark are one log entry,
// so no other memory of what was replicated exists.
package rhumb
