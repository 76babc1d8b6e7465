package server

import (
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
)

// Each damaged batch is told of under the name of the partition that has it: all shards
// number their partitions from the same start.
func TestDamageIsNamedByItsShard(t *testing.T) {
	f := start(t, configure(t))
	c := f.client(f.kafka())
	for i := range 12 {
		f.produce(c, fmt.Sprint("t", i), "x")
	}
	var damaged []storage.Damage
	want := map[rhumb.PartitionRef]string{}
	numbers := map[rhumb.PartitionID]int{}
	for _, info := range f.server.Region().Topics() {
		for _, p := range info.Partitions {
			damaged = append(damaged, storage.Damage{Shard: p.Ref.Shard, Partition: p.Ref.ID})
			want[p.Ref] = fmt.Sprintf("%s, partition %d", info.Topic.Short(), p.Index)
			numbers[p.Ref.ID]++
		}
	}
	if len(numbers) == len(want) {
		t.Fatalf("no number is used in two shards: %v", numbers)
	}
	lost := storage.Damage{Shard: 1, Partition: 1 << 40}
	want[placeOf(lost)] = fmt.Sprintf("a partition that is deleted (shard 1, number %d)", lost.Partition)
	names := f.server.partitionNames(append(damaged, lost))
	for ref, name := range want {
		if names[ref] != name {
			t.Errorf("damage in %+v is told as %q, want %q", ref, names[ref], name)
		}
	}
}
