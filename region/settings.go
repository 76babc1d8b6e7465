package region

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
	"github.com/rhumbmq/rhumb/region/shard"
)

// AllNodes is the scope of settings that hold for every node of the region; a
// node's own scope is its id.
const AllNodes = ""

// Settings gives what was set at run time for a scope: [AllNodes], or a node's id
// in decimal. The map is shared: read only.
func (r *Region) Settings(scope string) map[string]string { return r.shards[0].Settings(scope) }

// AlterSettings changes the settings of a scope: change gets what there is, which
// it must not change, and gives what shall be. It is called again if somebody
// else was faster. It returns when the change is durable.
func (r *Region) AlterSettings(ctx context.Context, scope string, change func(map[string]string) (map[string]string, error)) error {
	for {
		before := r.Settings(scope)
		after, err := change(before)
		if err != nil || maps.Equal(before, after) {
			return err
		}
		if err = r.shards[0].PutSettings(ctx, scope, before, after); !errors.Is(err, shard.ErrChanged) {
			return err
		}
	}
}

// AlterTopicConfigs changes a topic's settings as AlterSettings does, and gives
// the topic as it is then. What reads them sees the new ones from then on.
func (r *Region) AlterTopicConfigs(ctx context.Context, name rhumb.Topic, change func(map[string]string) (map[string]string, error)) (TopicInfo, error) {
	for {
		t, ok := r.Topic(name)
		if !ok {
			return TopicInfo{}, rhumb.Errorf(rhumb.KindNotFound, "no topic %s", name)
		}
		after, err := change(t.Configs)
		if err != nil || maps.Equal(t.Configs, after) {
			return t, err
		}
		changed, err := r.shards[0].SetConfigs(ctx, t.ID, t.Configs, after)
		if errors.Is(err, shard.ErrChanged) {
			continue
		}
		if err != nil {
			return t, err
		}
		return r.infoOf(changed), nil
	}
}

// Layers gives the settings that hold for a topic in this region.
func (r *Region) Layers(t TopicInfo) topicconf.Layers {
	return topicconf.Layers{
		Topic: t.Configs, Namespace: r.namespaceSettings(t.Topic),
		Node: r.Settings(r.scope), Region: r.Settings(AllNodes), Static: r.static,
	}
}

// NodeLayers gives the settings that hold for this node.
func (r *Region) NodeLayers() topicconf.Layers {
	return topicconf.Layers{Node: r.Settings(r.scope), Region: r.Settings(AllNodes), Static: r.static}
}

// staticSettings is what the region's configuration says of retention.
func (c *Config) staticSettings() map[string]string {
	all := topicconf.Milliseconds(c.RetentionMs)
	if all == nil {
		all = map[string]string{}
	}
	all["log.retention.bytes"] = strconv.FormatInt(max(c.RetentionBytes, -1), 10)
	all["log.retention.check.interval.ms"] = strconv.FormatInt(c.RetentionInterval.Milliseconds(), 10)
	all["producer.id.expiration.ms"] = strconv.FormatInt(c.ProducerExpiry.Milliseconds(), 10)
	return topicconf.Static(all)
}

// namespaceSettings is what the topic's namespace says of retention, under the
// names of topic settings.
func (r *Region) namespaceSettings(t rhumb.Topic) map[string]string {
	if r.cfg.NamespaceRetention == nil {
		return nil
	}
	ms, bytes := r.cfg.NamespaceRetention(t)
	if ms == nil && bytes == nil {
		return nil
	}
	out := map[string]string{}
	if ms != nil {
		out[topicconf.RetentionMs] = strconv.FormatInt(max(*ms, -1), 10)
	}
	if bytes != nil {
		out[topicconf.RetentionBytes] = strconv.FormatInt(max(*bytes, -1), 10)
	}
	return out
}

// PartitionCount gives the number of partitions of all topics.
func (r *Region) PartitionCount() int { return r.shards[0].PartitionCount() }

// RoomFor gives [ErrPartitionLimit] if the region may not have so many more
// partitions. What creates them is judged again, in its entry.
func (r *Region) RoomFor(partitions int) error {
	if have := r.PartitionCount(); have+partitions > r.cfg.PartitionLimit {
		return rhumb.Errorf(rhumb.KindNoSpace, "%w: the region has %d, %d more are above its limit of %d",
			ErrPartitionLimit, have, partitions, r.cfg.PartitionLimit)
	}
	return nil
}

// Producers gives what a partition remembers of idempotent producers, in no order.
func (r *Region) Producers(ctx context.Context, ref rhumb.PartitionRef) ([]ProducerState, error) {
	s := r.shard(ref.Shard)
	if s == nil {
		return nil, noPartition(ref)
	}
	return s.Producers(ctx, ref.ID)
}

// Disk is the disk that the node stores on.
type Disk struct {
	Dir   string
	Total uint64 // bytes
	Free  uint64 // bytes
}

// Disk looks at the disk.
func (r *Region) Disk() (Disk, error) {
	dir, u, err := r.cfg.Store.Disk()
	if abs, e := filepath.Abs(dir); e == nil {
		dir = abs // as Kafka's tools show it
	}
	return Disk{Dir: dir, Total: u.Total, Free: u.Free}, err
}
