package statedb

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	prefixApplied   = 'a'
	prefixCompact   = 'c'
	prefixDense     = 'd'
	prefixFile      = 'f'
	prefixLog       = 'l'
	prefixPartition = 'p'
	prefixRun       = 'r'
	prefixSegment   = 's'
	prefixTable     = 't'

	shardKeySize     = 5
	partitionKeySize = shardKeySize + 8
)

func appendShard(b []byte, prefix byte, shard rhumb.ShardID) []byte {
	return binary.BigEndian.AppendUint32(append(b, prefix), uint32(shard))
}

func appendPartition(b []byte, prefix byte, shard rhumb.ShardID, p rhumb.PartitionID) []byte {
	return binary.BigEndian.AppendUint64(appendShard(b, prefix, shard), uint64(p))
}

func appendDense(b []byte, shard rhumb.ShardID, p rhumb.PartitionID, base rhumb.Offset) []byte {
	return binary.BigEndian.AppendUint64(appendPartition(b, prefixDense, shard, p), uint64(base))
}

func appendRun(b []byte, shard rhumb.ShardID, index uint64) []byte {
	return binary.BigEndian.AppendUint64(appendShard(b, prefixRun, shard), index)
}

func appendFile(b []byte, prefix byte, file uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefix), file)
}

// after gives the smallest key above all keys that start with b; b must not be
// all 0xff, which no prefix here is.
func after(b []byte) []byte {
	end := append([]byte(nil), b...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return end
}

// tail reads the number at the end of a key, which the caller knows to be long enough.
func tail(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }
