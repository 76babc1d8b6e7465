package shard

import (
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Commands of shard 0, which keeps the region's own metadata.

type createTopicCommand struct {
	topic     rhumb.Topic
	id        rhumb.UUID
	deletions uint64
	configs   []configPair
	shards    []rhumb.ShardID // of each partition
	limit     uint64          // of partitions in the region, 0 for none
}

type growTopicCommand struct {
	id     rhumb.UUID
	shards []rhumb.ShardID // of all partitions, the old ones too
	limit  uint64          // of partitions in the region, 0 for none
}

type deleteTopicCommand struct {
	topic     rhumb.Topic
	deletions uint64
}

// deleteHereCommand deletes a topic of this region and leaves its name's deletion
// count as it is. With mark the region remembers that it was deleted here.
type deleteHereCommand struct {
	topic rhumb.Topic
	mark  bool
}

type setConfigsCommand struct {
	id      rhumb.UUID
	configs []configPair
	before  *[]configPair // what they must be for this to count, nil for anything
}

// putSettingsCommand replaces settings that belong to no topic.
type putSettingsCommand struct {
	scope   string
	configs []configPair
	before  []configPair // what they must be for this to count
}

type partitionReadyCommand struct {
	topicID   rhumb.UUID
	index     int32
	partition rhumb.PartitionID
	life      rhumb.Life
}

type topicGoneCommand struct{ id rhumb.UUID }

type initRegionCommand struct{ clusterID rhumb.UUID }

type producerBlockCommand struct{}

func (c *createTopicCommand) kind() kind    { return kindCreateTopic }
func (c *growTopicCommand) kind() kind      { return kindGrowTopic }
func (c *deleteTopicCommand) kind() kind    { return kindDeleteTopic }
func (c *deleteHereCommand) kind() kind     { return kindDeleteHere }
func (c *setConfigsCommand) kind() kind     { return kindSetConfigs }
func (c *partitionReadyCommand) kind() kind { return kindPartitionReady }
func (c *topicGoneCommand) kind() kind      { return kindTopicGone }
func (c *initRegionCommand) kind() kind     { return kindInitRegion }
func (c *producerBlockCommand) kind() kind  { return kindProducerBlock }
func (c *putSettingsCommand) kind() kind    { return kindPutSettings }

func putShards(b []byte, shards []rhumb.ShardID) []byte {
	b = putUint(b, uint64(len(shards)))
	for _, s := range shards {
		b = putUint(b, uint64(s))
	}
	return b
}

func (r *reader) shard() rhumb.ShardID {
	v := r.uint()
	if v > 1<<31 {
		r.fail()
		return 0
	}
	return rhumb.ShardID(v)
}

func (r *reader) shards() []rhumb.ShardID {
	n := r.count(1)
	out := make([]rhumb.ShardID, 0, n)
	for range n {
		out = append(out, r.shard())
	}
	return out
}

func (c *createTopicCommand) append(b []byte) []byte {
	b = putTopic(b, c.topic)
	b = append(b, c.id[:]...)
	b = putUint(b, c.deletions)
	b = putConfigs(b, c.configs)
	return putLimit(putShards(b, c.shards), c.limit)
}

// putLimit ends a command that an earlier version knew without a limit.
func putLimit(b []byte, limit uint64) []byte {
	if limit == 0 {
		return b
	}
	return putUint(b, limit)
}

// optionalUint reads what may not be there.
func (r *reader) optionalUint() uint64 {
	if len(r.b) == 0 {
		return 0
	}
	return r.uint()
}

func decodeCreateTopic(body []byte) (*createTopicCommand, error) {
	r := reader{b: body}
	c := &createTopicCommand{r.topic(), r.uuid(), r.uint(), r.configs(), r.shards(), r.optionalUint()}
	return c, r.err("topic")
}

func (c *growTopicCommand) append(b []byte) []byte {
	return putLimit(putShards(append(b, c.id[:]...), c.shards), c.limit)
}

func decodeGrowTopic(body []byte) (*growTopicCommand, error) {
	r := reader{b: body}
	c := &growTopicCommand{r.uuid(), r.shards(), r.optionalUint()}
	return c, r.err("topic growth")
}

func (c *deleteTopicCommand) append(b []byte) []byte {
	return putUint(putTopic(b, c.topic), c.deletions)
}

func decodeDeleteTopic(body []byte) (*deleteTopicCommand, error) {
	r := reader{b: body}
	c := &deleteTopicCommand{r.topic(), r.uint()}
	return c, r.err("topic deletion")
}

func (c *deleteHereCommand) append(b []byte) []byte { return putBool(putTopic(b, c.topic), c.mark) }

func decodeDeleteHere(body []byte) (*deleteHereCommand, error) {
	r := reader{b: body}
	c := &deleteHereCommand{r.topic(), r.bool()}
	return c, r.err("topic deletion here")
}

func (c *setConfigsCommand) append(b []byte) []byte {
	b = putConfigs(append(b, c.id[:]...), c.configs)
	if c.before != nil {
		b = putConfigs(putBool(b, true), *c.before)
	}
	return b
}

func decodeSetConfigs(body []byte) (*setConfigsCommand, error) {
	r := reader{b: body}
	c := &setConfigsCommand{id: r.uuid(), configs: r.configs()}
	if len(r.b) > 0 && r.bool() {
		before := r.configs()
		c.before = &before
	}
	return c, r.err("topic settings")
}

func (c *putSettingsCommand) append(b []byte) []byte {
	return putConfigs(putConfigs(putString(b, c.scope), c.configs), c.before)
}

func decodePutSettings(body []byte) (*putSettingsCommand, error) {
	r := reader{b: body}
	c := &putSettingsCommand{r.string(), r.configs(), r.configs()}
	return c, r.err("settings")
}

func (c *partitionReadyCommand) append(b []byte) []byte {
	b = append(b, c.topicID[:]...)
	b = putInt(b, int64(c.index))
	b = putUint(b, uint64(c.partition))
	return append(b, c.life[:]...)
}

func decodePartitionReady(body []byte) (*partitionReadyCommand, error) {
	r := reader{b: body}
	c := &partitionReadyCommand{r.uuid(), r.int32(), rhumb.PartitionID(r.uint()), r.life()}
	return c, r.err("ready partition")
}

func (c *topicGoneCommand) append(b []byte) []byte { return append(b, c.id[:]...) }

func decodeTopicGone(body []byte) (*topicGoneCommand, error) {
	r := reader{b: body}
	c := &topicGoneCommand{r.uuid()}
	return c, r.err("gone topic")
}

func (c *initRegionCommand) append(b []byte) []byte { return append(b, c.clusterID[:]...) }

func decodeInitRegion(body []byte) (*initRegionCommand, error) {
	r := reader{b: body}
	c := &initRegionCommand{r.uuid()}
	return c, r.err("region")
}

func (c *producerBlockCommand) append(b []byte) []byte { return b }

// sortedConfigs gives settings in the order in which they are stored.
func sortedConfigs(m map[string]string) []configPair {
	out := make([]configPair, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, configPair{k, m[k]})
	}
	return out
}

func configMap(pairs []configPair) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.key] = p.value
	}
	return m
}
