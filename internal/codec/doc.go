// Package codec reads and writes the bytes that several rooms share: Kafka record
// batches and their records, and the envelope that stands before each stored
// batch. It does no I/O, and keeps nothing but the decoders of an [Expander].
//
// # Batch
//
// A record batch of magic 2 (https://kafka.apache.org/documentation/#recordbatch),
// integers big-endian. Rhumb patches only what lies outside the CRC: the base
// offset and the partition leader epoch.
//
//	 0  int64  base offset            (patched)
//	 8  int32  length of what follows, so the batch is 12 + length bytes
//	12  int32  partition leader epoch (patched)
//	16  int8   magic, 2
//	17  uint32 CRC32C of everything from byte 21 on
//	21  int16  attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control
//	23  int32  last offset delta
//	27  int64  first timestamp, ms
//	35  int64  max timestamp, ms
//	43  int64  producer id
//	51  int16  producer epoch
//	53  int32  base sequence
//	57  int32  record count
//	61  records, compressed as the attributes say
//
// A record; all integers are zigzag varints. A negative length of a key or a value
// is null.
//
//	length of what follows
//	int8   attributes: none are defined
//	timestamp, after the batch's first
//	offset, after the batch's base offset
//	key length, key
//	value length, value
//	count of headers, then for each: key length, key, value length, value
//
// A thinned batch has lost records to compaction. Those that are left are as they
// were, with the offsets and timestamps that they had: first timestamp, last offset
// delta and base sequence stay, the max timestamp is that of the records left.
//
// # Envelope
//
// Integers little-endian. The header length lets a later version append
// optional fields, which an older reader skips. A set bit in the high byte of
// the flags that the reader does not know makes it refuse the envelope.
//
//	 0  uint8  magic, 0xE7
//	 1  uint8  version, 1
//	 2  uint16 header length, 88 in version 1
//	 4  uint16 flags: 0x1 decided (a transaction's batch after its commit), 0x100 thinned
//	           (compaction took records out); high byte required
//	 6  uint16 origin region number
//	 8  uint64 partition id in its shard
//	16  16 B   origin life
//	32  int64  first offset at the origin
//	40  int64  last offset at the origin
//	48  int64  prev: the last origin offset before first that carried something, -1 if none
//	56  uint64 chain at last
//	64  int64  append time at the origin, ms since 1970
//	72  uint32 record count
//	76  uint32 length of the batch that follows the envelope
//	80  uint32 CRC of the batch as its origin stored it, if thinned; else 0
//	84  uint32 CRC32C of the envelope before this field, any bytes of a longer
//	           header after it, and the first 61 bytes of the batch
package codec
