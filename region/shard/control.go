package shard

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// command is a control command: anything but a batch. Encodings grow only at
// their end.
type command interface {
	kind() kind
	append(b []byte) []byte
}

// configPair is one setting of a topic. Settings are stored sorted by key, so
// that equal settings have equal bytes.
type configPair struct{ key, value string }

// floorOf raises the floor of one origin together with the log start.
type floorOf struct {
	region rhumb.RegionNumber
	life   rhumb.Life
	floor  rhumb.Offset
}

type skipCommand struct {
	partition rhumb.PartitionID
	region    rhumb.RegionNumber
	life      rhumb.Life
	skip      dedup.Skip
}

type logStartCommand struct {
	partition rhumb.PartitionID
	start     rhumb.Offset
	reason    rhumb.Reason
	floors    []floorOf
	// own is the last own offset that goes, on a batch border, with its chain:
	// where a link's gap may end. nil in entries of older versions.
	own *dedup.ChainPoint
}

type edgeStartCommand struct {
	partition rhumb.PartitionID
	dest      rhumb.RegionNumber
	latest    bool
}

type expireProducersCommand struct {
	partition rhumb.PartitionID
	before    int64 // ms: producers not used since then are forgotten
}

type createPartitionCommand struct {
	topicID   rhumb.UUID
	topic     rhumb.Topic
	index     int32
	deletions uint64
	life      rhumb.Life
}

type dropTopicCommand struct{ topicID rhumb.UUID }

func (c *skipCommand) kind() kind            { return kindSkip }
func (c *logStartCommand) kind() kind        { return kindLogStart }
func (c *edgeStartCommand) kind() kind       { return kindEdgeStart }
func (c *expireProducersCommand) kind() kind { return kindExpireProducers }
func (c *createPartitionCommand) kind() kind { return kindCreatePartition }
func (c *dropTopicCommand) kind() kind       { return kindDropTopic }

func (c *skipCommand) append(b []byte) []byte {
	b = putUint(b, uint64(c.partition))
	b = putUint(b, uint64(c.region))
	b = append(b, c.life[:]...)
	b = putInt(b, int64(c.skip.From))
	b = putInt(b, int64(c.skip.To))
	b = putUint(b, c.skip.Chain)
	b = append(b, byte(c.skip.Reason))
	if c.skip.By == "" {
		return b
	}
	return putString(b, c.skip.By)
}

func decodeSkip(body []byte) (*skipCommand, error) {
	r := reader{b: body}
	c := &skipCommand{partition: rhumb.PartitionID(r.uint()), region: r.region(), life: r.life()}
	c.skip = dedup.Skip{From: rhumb.Offset(r.int()), To: rhumb.Offset(r.int()), Chain: r.uint(), Reason: rhumb.Reason(r.byte())}
	if len(r.b) > 0 {
		c.skip.By = r.string()
	}
	return c, r.err("skip")
}

func (c *logStartCommand) append(b []byte) []byte {
	b = putUint(b, uint64(c.partition))
	b = putInt(b, int64(c.start))
	b = append(b, byte(c.reason))
	b = putUint(b, uint64(len(c.floors)))
	for _, f := range c.floors {
		b = putUint(b, uint64(f.region))
		b = append(b, f.life[:]...)
		b = putInt(b, int64(f.floor))
	}
	if c.own != nil {
		b = putUint(putInt(b, int64(c.own.Offset)), c.own.Chain)
	}
	return b
}

func decodeLogStart(body []byte) (*logStartCommand, error) {
	r := reader{b: body}
	c := &logStartCommand{partition: rhumb.PartitionID(r.uint()), start: rhumb.Offset(r.int()), reason: rhumb.Reason(r.byte())}
	for range r.count(18) {
		c.floors = append(c.floors, floorOf{r.region(), r.life(), rhumb.Offset(r.int())})
	}
	if len(r.b) > 0 {
		c.own = &dedup.ChainPoint{Offset: rhumb.Offset(r.int()), Chain: r.uint()}
	}
	return c, r.err("log start")
}

func (c *edgeStartCommand) append(b []byte) []byte {
	b = putUint(b, uint64(c.partition))
	b = putUint(b, uint64(c.dest))
	return putBool(b, c.latest)
}

func decodeEdgeStart(body []byte) (*edgeStartCommand, error) {
	r := reader{b: body}
	c := &edgeStartCommand{rhumb.PartitionID(r.uint()), r.region(), r.bool()}
	return c, r.err("edge start")
}

func (c *expireProducersCommand) append(b []byte) []byte {
	return putInt(putUint(b, uint64(c.partition)), c.before)
}

func decodeExpireProducers(body []byte) (*expireProducersCommand, error) {
	r := reader{b: body}
	c := &expireProducersCommand{rhumb.PartitionID(r.uint()), r.int()}
	return c, r.err("producer expiry")
}

func (c *createPartitionCommand) append(b []byte) []byte {
	b = append(b, c.topicID[:]...)
	b = putTopic(b, c.topic)
	b = putInt(b, int64(c.index))
	b = putUint(b, c.deletions)
	return append(b, c.life[:]...)
}

func decodeCreatePartition(body []byte) (*createPartitionCommand, error) {
	r := reader{b: body}
	c := &createPartitionCommand{r.uuid(), r.topic(), r.int32(), r.uint(), r.life()}
	return c, r.err("partition")
}

func (c *dropTopicCommand) append(b []byte) []byte { return append(b, c.topicID[:]...) }

func decodeDropTopic(body []byte) (*dropTopicCommand, error) {
	r := reader{b: body}
	c := &dropTopicCommand{r.uuid()}
	return c, r.err("topic drop")
}
