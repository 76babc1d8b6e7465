package broker

import (
	"cmp"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// GroupLag is how far a group's position is behind a partition's end.
type GroupLag struct {
	Group     GroupKey
	Topic     rhumb.Topic
	Partition int32
	Records   int64 // offsets between position and end, as Kafka's tools count
}

// GroupLags gives the lag of the groups that this node coordinates, in partitions that
// it leads, sorted by group, topic and partition: at most so many, and how many were
// left out. A position of a deleted topic has none.
func (b *Broker) GroupLags(most int) (lags []GroupLag, left int) {
	keys := b.region.Groups()
	slices.SortFunc(keys, func(x, y GroupKey) int {
		return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Group, y.Group))
	})
	for _, k := range keys {
		offsets, err := b.Offsets(k)
		if err != nil {
			continue
		}
		if len(lags) >= most {
			left += len(offsets)
			continue
		}
		from := len(lags)
		for key, o := range offsets {
			if lag, ok := b.lagOf(k, key, o.Offset); ok {
				lags = append(lags, lag)
			}
		}
		slices.SortFunc(lags[from:], func(x, y GroupLag) int {
			return cmp.Or(cmp.Compare(x.Topic.String(), y.Topic.String()), cmp.Compare(x.Partition, y.Partition))
		})
	}
	if over := len(lags) - most; over > 0 {
		lags, left = lags[:most], left+over
	}
	return lags, left
}

func (b *Broker) lagOf(k GroupKey, key OffsetKey, at rhumb.Offset) (GroupLag, bool) {
	info, ok := b.region.TopicByID(key.TopicID)
	if !ok || key.Partition < 0 || int(key.Partition) >= len(info.Partitions) {
		return GroupLag{}, false
	}
	state, ok := b.region.State(info.Partitions[key.Partition].Ref)
	if !ok || !state.Leading {
		return GroupLag{}, false
	}
	return GroupLag{Group: k, Topic: info.Topic, Partition: key.Partition, Records: int64(max(0, state.End-at))}, true
}
