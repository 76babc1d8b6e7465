package clients

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// oldest is the first version that Kafka 4 serves, where it offers older ones, too.
var oldest = map[int16]int16{0: 3}

// probes are the requests, by API. They run in the order of the keys, on a server
// that has only just begun, so that what one leaves behind is there for the next.
var probes = map[int16][]probe{
	0: producing, 1: fetching, 2: listing, 3: describing, 8: committing, 9: committed, 10: coordinators, 11: joining, 12: heartbeats,
	13: leaving, 14: syncing, 15: describingGroups, 16: listingGroups, 17: handshakes, 18: versions, 19: creating, 20: deleting, 21: cutting,
	22: producerIDs, 23: epochs, 32: configs, 33: altering, 35: folders, 36: authenticating, 37: growing, 42: deletingGroups, 43: electing,
	44: adjusting, 45: reassigning, 46: reassignments, 47: forgetting, 48: clientQuotas, 50: credentials, 51: changingCredentials,
	60: cluster, 61: producers, 74: configResources, 75: partitions,
}

func numbered(name string, v int16) string { return fmt.Sprintf("%s-v%d", name, v) }

// dotted makes a name of words.
func dotted(words string) string { return strings.NewReplacer(" ", ".", "=", ".").Replace(words) }

// stranger is the id of no topic.
var stranger = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func (w *world) id(topic string) [16]byte {
	if id, is := w.topc[topic]; is {
		return id
	}
	return stranger
}

func produceRequest(w *world, v int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, w.id(topic)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produces makes a probe that sends records to a topic of its own.
func produces(name string, records func() []byte, configs ...string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		return produceRequest(w, v, w.topic(numbered("produce", v)+"-"+dotted(name), 1, configs...), 0, records())
	}}
}

// spoilt is a good batch with a byte changed, sealed again or not.
func spoilt(seal bool, change func(b []byte)) func() []byte {
	return func() []byte {
		b := batch(codec.NoSender, 0, 2)
		if change(b); seal {
			codec.SealBatch(b)
		}
		return b
	}
}

// sequence makes a probe of an idempotent producer, whose first batch was sent.
func sequence(name string, epoch int16, seq int32) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		topic := w.topic(numbered("sequence", v)+"-"+dotted(name), 1)
		id := w.best(producerID()).(*kmsg.InitProducerIDResponse).ProducerID
		w.produce(topic, batch(codec.Sender{ID: id, Epoch: 1, Sequence: 0}, 0, 2))
		return produceRequest(w, v, topic, 0, batch(codec.Sender{ID: id, Epoch: epoch, Sequence: seq}, 2, 2))
	}}
}

var producing = []probe{
	produces("a batch", func() []byte { return batch(codec.NoSender, 0, 2) }),
	produces("a batch that is stamped by the server", func() []byte { return batch(codec.NoSender, 0, 2) }, "message.timestamp.type", "CreateTime"),
	produces("a batch with a wrong sum", spoilt(false, func(b []byte) { b[20] ^= 1 })),
	produces("a batch that says it holds three", spoilt(true, func(b []byte) { b[60] = 3 })),
	produces("a batch whose last offset is wrong", spoilt(true, func(b []byte) { b[26] = 7 })),
	produces("a batch with base offset 5", spoilt(false, func(b []byte) { b[7] = 5 })),
	produces("a batch of magic 3", spoilt(false, func(b []byte) { b[16] = 3 })),
	produces("a batch of an unknown codec", spoilt(true, func(b []byte) { b[22] = 7 })),
	produces("a control batch", spoilt(true, func(b []byte) { b[22] = 0x20 })),
	produces("half a batch", func() []byte { b := batch(codec.NoSender, 0, 2); return b[:len(b)-5] }),
	produces("two batches", func() []byte { return append(batch(codec.NoSender, 0, 2), batch(codec.NoSender, 2, 2)...) }),
	produces("nothing", func() []byte { return []byte{} }),
	produces("a batch that is too large", func() []byte { return batch(codec.NoSender, 0, 50) }, "max.message.bytes", "500"),
	produces("a batch of the far future", spoilt(true, func(b []byte) { binary.BigEndian.PutUint64(b[27:], 4e12); binary.BigEndian.PutUint64(b[35:], 4e12) })),
	produces("a batch without keys to a compacted topic", func() []byte {
		return codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Timestamp: dawn, Value: []byte("v")}})
	}, "cleanup.policy", "compact"),
	{"to an unknown topic", 0, func(w *world, v int16) kmsg.Request {
		return produceRequest(w, v, "nowhere", 0, batch(codec.NoSender, 0, 2))
	}},
	{"to an unknown partition", 0, func(w *world, v int16) kmsg.Request {
		return produceRequest(w, v, w.topic("one", 1), 7, batch(codec.NoSender, 0, 2))
	}},
	{"with acks=1", 0, func(w *world, v int16) kmsg.Request {
		req := produceRequest(w, v, w.topic(numbered("acks", v), 1), 0, batch(codec.NoSender, 0, 2))
		req.Acks = 1
		return req
	}},
	{"with acks=2", 0, func(w *world, v int16) kmsg.Request {
		req := produceRequest(w, v, w.topic("one", 1), 0, batch(codec.NoSender, 0, 2))
		req.Acks = 2
		return req
	}},
	sequence("the next sequence", 1, 2), sequence("the same sequence again", 1, 0), sequence("a gap in the sequence", 1, 5),
	sequence("an older epoch", 0, 0), sequence("a newer epoch", 2, 0), sequence("a newer epoch in the middle", 2, 2),
}

// data is a topic of two partitions: in the first three batches of two records.
func (w *world) data() string {
	if _, is := w.topc["data"]; !is {
		w.topic("data", 2, "retention.ms", "-1")
		w.produce("data", batch(codec.NoSender, 0, 2), batch(codec.NoSender, 2, 2), batch(codec.NoSender, 4, 2))
	}
	return "data"
}

// fetches makes a probe that reads a partition of data.
func fetches(name string, from int16, change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopic)) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 1<<20
		req.SessionEpoch = -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic = w.data()
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, -1
		t.Partitions = append(t.Partitions, p)
		change(req, &t)
		t.TopicID = w.id(t.Topic)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

func fetchAt(name string, partition int32, offset int64) probe {
	return fetches(name, 0, func(_ *kmsg.FetchRequest, t *kmsg.FetchRequestTopic) {
		t.Partitions[0].Partition, t.Partitions[0].FetchOffset = partition, offset
	})
}

var fetching = []probe{
	fetchAt("from the start", 0, 0), fetchAt("from the second batch", 0, 2), fetchAt("from the middle of a batch", 0, 3),
	fetchAt("at the end", 0, 6), fetchAt("past the end", 0, 7), fetchAt("below the start", 0, -1), fetchAt("of an empty partition", 1, 0),
	fetchAt("of an unknown partition", 9, 0),
	fetches("of an unknown topic", 0, func(_ *kmsg.FetchRequest, t *kmsg.FetchRequestTopic) { t.Topic = "nowhere" }),
	fetches("of one byte", 0, func(_ *kmsg.FetchRequest, t *kmsg.FetchRequestTopic) { t.Partitions[0].PartitionMaxBytes = 1 }),
	fetches("of one byte in all", 0, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic) { r.MaxBytes = 1 }),
	fetches("of what is committed", 0, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic) { r.IsolationLevel = 1 }),
	fetches("that begins a session", 7, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic) { r.SessionEpoch = 0 }),
	fetches("of a session that is not there", 7, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic) { r.SessionID, r.SessionEpoch = 12345, 3 }),
	fetches("with an epoch of the future", 9, func(_ *kmsg.FetchRequest, t *kmsg.FetchRequestTopic) { t.Partitions[0].CurrentLeaderEpoch = 1 << 20 }),
}

// lists makes a probe that looks an offset up.
func lists(name string, from int16, topic string, partition int32, at int64) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, at, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

var listing = []probe{
	lists("of the end", 0, "data", 0, -1), lists("of the start", 0, "data", 0, -2), lists("of the largest time", 7, "data", 0, -3),
	lists("of the local start", 8, "data", 0, -4), lists("of the last tiered", 9, "data", 0, -5), lists("of the first not yet tiered", 11, "data", 0, -6),
	lists("of a special time that is none", 0, "data", 0, -9), lists("at a record", 0, "data", 0, dawn+3000), lists("between records", 0, "data", 0, dawn+2500),
	lists("before the first", 0, "data", 0, 0), lists("after the last", 0, "data", 0, dawn+5001), lists("in an empty partition", 0, "data", 1, 0),
	lists("of the largest time of an empty partition", 7, "data", 1, -3), lists("of an unknown partition", 0, "data", 9, -1),
	lists("of an unknown topic", 0, "nowhere", 0, -1),
}

var epochs = []probe{
	epochOf("of an epoch of the future", "data", 0, -1, 1<<20), epochOf("with an own epoch of the future", "data", 0, 1<<20, 0),
	epochOf("of an unknown partition", "data", 9, -1, 0), epochOf("of an unknown topic", "nowhere", 0, -1, 0),
}

func epochOf(name, topic string, partition, current, asked int32) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, asked
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

func producerID() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000
	req.ProducerID, req.ProducerEpoch = -1, -1
	return req
}

var producerIDs = []probe{
	{"of a new producer", 0, func(*world, int16) kmsg.Request { return producerID() }},
	{"of a producer that has an id", 3, func(*world, int16) kmsg.Request {
		req := producerID()
		req.ProducerID, req.ProducerEpoch = 1000, 3
		return req
	}},
	{"with an id and no epoch", 3, func(*world, int16) kmsg.Request {
		req := producerID()
		req.ProducerID = 1000
		return req
	}},
}

var producers = []probe{{"of a partition with one", 0, func(w *world, v int16) kmsg.Request {
	topic := w.topic("producers", 1)
	w.produce(topic, batch(codec.Sender{ID: w.best(producerID()).(*kmsg.InitProducerIDResponse).ProducerID, Epoch: 0, Sequence: 0}, 0, 2))
	return producersOf(topic, 0, 9)
}}, {"of an unknown topic", 0, func(*world, int16) kmsg.Request { return producersOf("nowhere", 0) }}}

func producersOf(topic string, partitions ...int32) kmsg.Request {
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	req.Topics = append(req.Topics, t)
	return req
}

var cutting = []probe{
	cuts("up to an offset", "", 0, 2), cuts("up to the end", "", 0, -1), cuts("past the end", "", 0, 99), cuts("with a negative offset", "", 0, -2),
	cuts("of an unknown partition", "", 9, 0), cuts("of an unknown topic", "nowhere", 0, 0),
}

func cuts(name, topic string, partition int32, offset int64) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		topic := topic
		if topic == "" {
			topic = w.topic(numbered("cut", v)+"-"+dotted(name), 1, "retention.ms", "-1")
			w.produce(topic, batch(codec.NoSender, 0, 3))
		}
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 30_000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}
}
