package shard

import "github.com/rhumbmq/rhumb/internal/rhumb"

// Commands of the shard that holds a group's coordinator slot.

type commitOffsetsCommand struct {
	key     GroupKey
	commits []OffsetCommit
}

type deleteOffsetsCommand struct {
	key     GroupKey
	all     bool // the group's state too
	offsets []OffsetKey
	before  int64 // only those stored before this time, ms; 0: whenever
}

type putGroupCommand struct {
	key  GroupKey
	blob []byte // empty: forget
}

func (c *commitOffsetsCommand) kind() kind { return kindCommitOffsets }
func (c *deleteOffsetsCommand) kind() kind { return kindDeleteOffsets }
func (c *putGroupCommand) kind() kind      { return kindPutGroup }

func putGroupKey(b []byte, k GroupKey) []byte {
	b = putString(b, k.Tenant)
	b = putString(b, k.Namespace)
	return putString(b, k.Group)
}

func (r *reader) groupKey() GroupKey {
	return GroupKey{rhumb.Tenant(r.string()), rhumb.Namespace(r.string()), r.string()}
}

func putCommit(b []byte, c OffsetCommit) []byte {
	b = append(b, c.TopicID[:]...)
	b = putInt(b, int64(c.Partition))
	return putCommitValue(b, c)
}

func putCommitValue(b []byte, c OffsetCommit) []byte {
	b = putTopic(b, c.Topic)
	b = putInt(b, int64(c.Offset))
	b = putInt(b, int64(c.LeaderEpoch))
	b = putString(b, c.Metadata)
	return putInt(b, c.At)
}

func (r *reader) commitValue(c *OffsetCommit) {
	c.Topic = r.topic()
	c.Offset = rhumb.Offset(r.int())
	c.LeaderEpoch = r.int32()
	c.Metadata = r.string()
	c.At = r.int()
}

func (c *commitOffsetsCommand) append(b []byte) []byte {
	b = putGroupKey(b, c.key)
	b = putUint(b, uint64(len(c.commits)))
	for _, o := range c.commits {
		b = putCommit(b, o)
	}
	return b
}

func decodeCommitOffsets(body []byte) (*commitOffsetsCommand, error) {
	r := reader{b: body}
	c := &commitOffsetsCommand{key: r.groupKey()}
	for range r.count(24) {
		o := OffsetCommit{TopicID: r.uuid(), Partition: r.int32()}
		r.commitValue(&o)
		c.commits = append(c.commits, o)
	}
	return c, r.err("offset commit")
}

func (c *deleteOffsetsCommand) append(b []byte) []byte {
	b = putGroupKey(b, c.key)
	b = putBool(b, c.all)
	b = putUint(b, uint64(len(c.offsets)))
	for _, o := range c.offsets {
		b = append(b, o.TopicID[:]...)
		b = putInt(b, int64(o.Partition))
	}
	if c.before != 0 {
		b = putInt(b, c.before)
	}
	return b
}

func decodeDeleteOffsets(body []byte) (*deleteOffsetsCommand, error) {
	r := reader{b: body}
	c := &deleteOffsetsCommand{key: r.groupKey(), all: r.bool()}
	for range r.count(17) {
		c.offsets = append(c.offsets, OffsetKey{r.uuid(), r.int32()})
	}
	if len(r.b) > 0 { // later than the rest of the command
		c.before = r.int()
	}
	return c, r.err("offset deletion")
}

func (c *putGroupCommand) append(b []byte) []byte { return putString(putGroupKey(b, c.key), c.blob) }

func decodePutGroup(body []byte) (*putGroupCommand, error) {
	r := reader{b: body}
	c := &putGroupCommand{r.groupKey(), append([]byte(nil), r.bytes()...)}
	return c, r.err("group")
}
