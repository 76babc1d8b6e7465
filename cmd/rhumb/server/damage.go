package server

import (
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
)

// damageProblems tells of files of which a batch could not be read since the start.
func (s *Server) damageProblems(problem func(part, state, format string, args ...any)) {
	damaged := s.room.store.Health().Damaged
	if len(damaged) == 0 {
		return
	}
	names := s.partitionNames(damaged)
	for _, d := range damaged {
		problem("storage", "damaged", "%s does not hold what was written: offsets %d to %d of %s cannot be read (%v); what is before and after them can", d.File, d.Offset, d.Last, names[placeOf(d)], d.Err)
	}
}

// partitionNames gives what operators call the partitions that have damage. A number is
// of its shard alone: other shards have partitions of the same number.
func (s *Server) partitionNames(damaged []storage.Damage) map[rhumb.PartitionRef]string {
	names := map[rhumb.PartitionRef]string{}
	for _, d := range damaged {
		names[placeOf(d)] = fmt.Sprintf("a partition that is deleted (shard %d, number %d)", d.Shard, d.Partition)
	}
	for _, t := range s.room.region.Topics() {
		for _, p := range t.Partitions {
			if _, damaged := names[p.Ref]; damaged {
				names[p.Ref] = fmt.Sprintf("%s, partition %d", t.Topic.Short(), p.Index)
			}
		}
	}
	return names
}

func placeOf(d storage.Damage) rhumb.PartitionRef {
	return rhumb.PartitionRef{Shard: d.Shard, ID: d.Partition}
}
