// Package shard is one Raft group with its state machine: the place where a
// region agrees on what is appended, in which order, and what is refused.
//
// # One append
//
//	Append         a goroutine of the caller: bytes are taken from the node's budget
//	  ↓ queue
//	build          judged by the leader's copy; offset assigned; put into the entry
//	  ↓ Raft       that holds all that waits
//	save           to the node's log; to followers at the same time
//	  ↓ committed
//	apply          judged again, by applied state: now it is decided
//	  ↓
//	store          index and tables, as one update
//	  ↓
//	done           the caller hears of it; waiting readers are woken
//
// # Decided at apply
//
// A leader assigns offsets and judges duplicates before it proposes, by a
// speculative copy of what it touches: a partition's positions, one producer's
// table, one life's watermark. A value is copied when something in flight first
// changes it, and dropped when nothing in flight does any more. Applying judges
// again by applied state alone, on every replica in the same way. An entry whose
// leader epoch is not its own term is refused.
//
// If apply refuses what the leader had accepted, or Raft drops a proposal, the
// copy was wrong. Then the leader fails what waits, proposes nothing until all that
// is in flight has been applied, and so starts again from applied state. When it
// loses its leadership, all that waits or is in flight fails as not leader: what
// is in flight may yet be committed by the next leader.
//
// A new leader proposes nothing and answers no watermark until the first entry of
// its term is applied: before that its state may lack what was confirmed.
//
// What is no news is never answered from the copy. A duplicate of a batch in flight
// waits for that batch, and is then judged again by applied state.
//
// # What may leave
//
// PartitionState.Flushed is the end of what a majority has on disk; a link's
// answers wait for it, too. With durability fsync that is what is committed, since
// a replica answers after its flush. Otherwise followers report to their leader
// what they flushed of the log that it gave them in its term.
//
// # Lives
//
// A partition's log has one life at a time. A new-life entry closes it at an offset
// and opens another one, which names all that lies behind it: records that are
// there keep their offsets, their order and the bytes on disk, and are read under
// the new name ([Shard.Read], [Shard.ReadOrigin]). It is decided by the life that
// the log has at apply: a second equal entry changes nothing. A proposal with a new
// life goes alone, and nothing is proposed until it is applied, since an append
// carries its life. A past life never comes back over a link.
//
// # Late followers
//
// Applied entries are kept for followers up to Config.Keep bytes. A later one gets
// a snapshot: it names the end of each partition that it has, and pulls the
// leader's rows at one index and the batches behind those ends. What a replica has
// applied never differs from another's, so its batches stay. Raft hears of a
// snapshot when all of it is there.
//
// # Entry
//
// Integers little-endian. A reader skips what a longer header appends.
//
//	 0  uint8  magic, 0xC7
//	 1  uint8  version, 1
//	 2  uint16 header length, 32
//	 4  uint32 number of commands
//	 8  uint64 leader epoch: the term in which it was proposed
//	16  int64  time of the leader, ms since 1970, never below that of the entry before
//	24  uint64 features that a reader must know, 0
//	32  commands
//
// # Command
//
//	0  uint8  kind
//	1  uint8  flags; a reader refuses the highest bit
//	2  uint16 header length, 8
//	4  uint32 length of the body
//	8  body
//
// The body of kinds 1 (append) and 2 (link) is an envelope and its batch, patched
// with offset and leader epoch: what storage serves is a part of the entry. All
// others are varints (u unsigned, s zigzag), strings with a u length before them,
// and 16-byte ids (id); later versions only append. topic is three strings:
// tenant, namespace, name.
//
//	 3  skip              u partition, u region, id life, s from, s to, u chain, byte reason [, string by]
//	 4  log start         u partition, s start, byte reason, u n × (u region, id life, s floor),
//	                     then s own floor, u chain there
//	 5  edge start        u partition, u destination, byte latest
//	 6  expire producers  u partition, s before
//	 7  create partition  id topic, topic, s index, u deletions, id life
//	 8  drop topic        id topic
//	 9  commit offsets    group, u n × (id topic, s partition, commit)
//	10  delete offsets    group, byte all, u n × (id topic, s partition)
//	11  put group         group, string
//	12  create topic      topic, id, u deletions, u n × (key, value), u n × u shard [, u limit]
//	13  grow topic        id, u n × u shard [, u limit]
//	14  delete topic      topic, u deletions
//	15  set configs       id, u n × (key, value) [, byte 1, u n × (key, value) as they must be]
//	16  partition ready   id topic, s index, u partition, id life
//	17  topic gone        id
//	18  init region       id
//	19  producer block
//	20  put settings      string scope, u n × (key, value), u n × (key, value) as they must be
//	21  new life          u partition, id old life, id new life, s last, u chain
//	22  delete here       topic, byte mark: the row C of scope "topic <name>" then says under which count
//
// group is three strings: tenant, namespace, group. commit is topic, s offset,
// s leader epoch, string metadata, s time. A partition's id is the index of the
// entry that created it, so an entry creates one at most.
//
// # Rows
//
// Keys: a table letter, then ids big-endian. Values: a version byte (1), then as
// above, but for W and I, which package dedup encodes, and B and the cluster id,
// which are bytes.
//
//	P partition                   id topic, topic, s index, u deletions, id life, s created
//	H partition                   s log start, s end, s own last, u own chain, s last append, u gaps,
//	                              then u n × (s own floor, u chain, byte reason)
//	W partition, region 2 B, life watermark
//	I partition, producer 8 B     producer
//	E partition, region 2 B       s start of the edge
//	G partition, number 8 B       u region, id life, s from, s to, byte reason, s time [, string by]
//	L partition, number 8 B       id life, s from, s last, u chain, s end, s time
//	O group, topic, partition 4 B commit
//	B group                       what its coordinator stored
//	T topic                       topic, u deletions, s created, configs, u n × (u shard, u partition, id life, byte ready)
//	X topic                       as T: deleted, with partitions left
//	D name                        s deletion count
//	C scope                       u n × (key, value): settings that belong to no topic
//	M cluster-id, producer-block, time
//
// # Goroutines
//
// Run is the only one: it owns Raft, the state machine and the leader's copy. It is
// woken by a signal with room for one, which requests, finished writes, messages
// and ticks give. Finished writes come from the storage's goroutines.
//
// # Lock order
//
// machine.mu before view.mu; Shard.mu is a leaf. Callbacks are called without locks.
package shard
