// Package region is one region: its shards on this node, and what lives in them.
// A [Region] offers topics, partitions, group offsets and producer ids; agreement
// is the work of package shard.
//
// # Topics
//
// Shard 0 keeps what the region knows of itself: its id, its topics, the deletion
// count of each topic's name, and the last block of producer ids. Partitions and
// group offsets live in the data shards, 1 to Shards. A partition's shard is
// chosen when it is created and stored with the topic.
//
// A topic is made in two steps, since two shards never see each other's entries.
// Shard 0 enters the topic; then the reconciler has each data shard start the
// partition's log, with a new life, and tells shard 0 where it is. Each step can
// be repeated: a shard starts one log per topic id and partition index, and shard
// 0 believes the first answer. [Region.CreateTopic] returns after the last step.
//
// A topic is deleted by raising its name's deletion count above the count that it
// was born under. Its name is free at once. The reconciler then drops partitions
// and committed offsets of that topic id from all shards, and shard 0 forgets it.
// A commit of offsets that comes later is swept when retention runs next.
//
// # Producer ids
//
// region number << 48 | block << 16 | counter. Shard 0 gives out blocks; a block is
// at least the seconds since 2024 by the entry's clock, so that a later life of
// the region, which knows nothing of this one, starts above all of its blocks.
// That holds while less than 65,536 ids a second are given out on average.
//
// # Limits
//
// Config.InFlight bounds the bytes of batches between request and answer, over
// all shards. It is taken before an offset is assigned; a batch that does not fit
// is refused with kind unavailable, which clients retry. While the disk is below
// its reserve, batches are refused with kind no space; deletion, settings and
// offset commits go on.
//
// # Goroutines
//
//	shard-N           one per shard: package shard; woken by requests and writes
//	region-reconcile  woken by changes of topics and leadership; owns nothing
//	region-retention  woken by its interval; owns nothing
//	region-tick       only if a shard has more than one voter: ticks them all
//
// An idle region has one timer, that of retention.
//
// # Lock order
//
// Region.mu and producerIDs.mu are leaves: no other lock is taken, and no callback
// called, while Region.mu is held. producerIDs.mu is held over a proposal.
package region
