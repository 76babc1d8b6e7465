package shard

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A row's key starts with its table. The rows are drawn in doc.go.
const (
	tablePartition byte = 'P' // partition id → what never changes
	tablePosition  byte = 'H' // partition id → what changes with each batch
	tableWatermark byte = 'W' // partition id, region, life → dedup.Watermark
	tableProducer  byte = 'I' // partition id, producer id → dedup.Producer
	tableEdge      byte = 'E' // partition id, destination → start
	tableGap       byte = 'G' // partition id, number → gap
	tablePastLife  byte = 'L' // partition id, number → a life that the log had before
	tableOffset    byte = 'O' // group, topic id, partition → offset
	tableGroup     byte = 'B' // group → blob
	tableTopic     byte = 'T' // topic id → topic
	tableDoomed    byte = 'X' // topic id of a deleted topic with partitions left
	tableDeletion  byte = 'D' // topic name → deletion count
	tableSettings  byte = 'C' // scope → settings that belong to no topic
	tableMeta      byte = 'M' // name → value
)

const rowVersion = 1

var (
	metaClusterID = []byte("Mcluster-id")
	metaBlock     = []byte("Mproducer-block")
	metaTime      = []byte("Mtime")
)

func partitionKey(table byte, id rhumb.PartitionID) []byte {
	b := make([]byte, 0, 32)
	return binary.BigEndian.AppendUint64(append(b, table), uint64(id))
}

func watermarkKey(id rhumb.PartitionID, k originKey) []byte {
	b := partitionKey(tableWatermark, id)
	b = binary.BigEndian.AppendUint16(b, uint16(k.region))
	return append(b, k.life[:]...)
}

func producerKey(id rhumb.PartitionID, producer int64) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(tableProducer, id), uint64(producer))
}

func edgeKey(id rhumb.PartitionID, dest rhumb.RegionNumber) []byte {
	return binary.BigEndian.AppendUint16(partitionKey(tableEdge, id), uint16(dest))
}

func gapKey(id rhumb.PartitionID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(tableGap, id), n)
}

func pastLifeKey(id rhumb.PartitionID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(tablePastLife, id), n)
}

func groupRowKey(k GroupKey) []byte { return putGroupKey([]byte{tableGroup}, k) }

func offsetRowKey(k GroupKey, o OffsetKey) []byte {
	b := putGroupKey([]byte{tableOffset}, k)
	b = append(b, o.TopicID[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(o.Partition))
}

func topicKey(table byte, id rhumb.UUID) []byte { return append([]byte{table}, id[:]...) }

func deletionKey(t rhumb.Topic) []byte { return putTopic([]byte{tableDeletion}, t) }

// keyID reads the partition id behind a key's table byte.
func keyID(key []byte) (rhumb.PartitionID, []byte, error) {
	if len(key) < 9 {
		return 0, nil, rhumb.Errorf(rhumb.KindCorrupt, "shard: key %x is too short", key)
	}
	return rhumb.PartitionID(binary.BigEndian.Uint64(key[1:])), key[9:], nil
}

// rowBody checks a row's version and gives what follows it. Rows only grow at
// their end, so a higher version is read as far as it is known.
func rowBody(value []byte) (reader, error) {
	if len(value) == 0 || value[0] == 0 {
		return reader{}, rhumb.Errorf(rhumb.KindCorrupt, "shard: row of %d bytes has no version", len(value))
	}
	return reader{b: value[1:]}, nil
}

func encodePartition(p *partition) []byte {
	b := append(make([]byte, 0, 96), rowVersion)
	b = append(b, p.topicID[:]...)
	b = putTopic(b, p.topic)
	b = putInt(b, int64(p.index))
	b = putUint(b, p.deletions)
	b = append(b, p.life[:]...)
	return putInt(b, p.createdAt)
}

func decodePartition(p *partition, value []byte) error {
	r, err := rowBody(value)
	if err != nil {
		return err
	}
	p.topicID, p.topic, p.index = r.uuid(), r.topic(), r.int32()
	p.deletions, p.life, p.createdAt = r.uint(), r.life(), r.int()
	return r.err("partition row")
}

func encodePosition(b []byte, p *partition) []byte {
	b = append(b, rowVersion)
	b = putInt(b, int64(p.logStart))
	b = putInt(b, int64(p.end))
	b = putInt(b, int64(p.ownLast))
	b = putUint(b, p.ownChain)
	b = putInt(b, p.lastAppend)
	b = putUint(b, p.gapCount)
	if len(p.starts) == 0 {
		return b
	}
	b = putUint(b, uint64(len(p.starts)))
	for _, m := range p.starts {
		b = putInt(b, int64(m.Offset))
		b = putUint(b, m.Chain)
		b = append(b, byte(m.Reason))
	}
	return b
}

func decodePosition(p *partition, value []byte) error {
	r, err := rowBody(value)
	if err != nil {
		return err
	}
	p.logStart, p.end = rhumb.Offset(r.int()), rhumb.Offset(r.int())
	p.ownLast, p.ownChain = rhumb.Offset(r.int()), r.uint()
	p.lastAppend, p.gapCount = r.int(), r.uint()
	if len(r.b) > 0 {
		for range r.count(3) {
			p.starts = append(p.starts, StartMove{dedup.ChainPoint{Offset: rhumb.Offset(r.int()), Chain: r.uint()}, rhumb.Reason(r.byte())})
		}
	}
	if !r.bad && (p.logStart < 0 || p.end < p.logStart || p.ownLast >= p.end) {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard: partition %d from %d to %d with own offset %d", p.id, p.logStart, p.end, p.ownLast)
	}
	return r.err("position row")
}

func encodeGap(g Gap) []byte {
	b := append(make([]byte, 0, 48), rowVersion)
	b = putUint(b, uint64(g.Region))
	b = append(b, g.Life[:]...)
	b = putInt(b, int64(g.From))
	b = putInt(b, int64(g.To))
	b = append(b, byte(g.Reason))
	b = putInt(b, g.At)
	if g.By == "" {
		return b
	}
	return putString(b, g.By)
}

func decodeGap(value []byte) (Gap, error) {
	r, err := rowBody(value)
	if err != nil {
		return Gap{}, err
	}
	g := Gap{Region: r.region(), Life: r.life(), From: rhumb.Offset(r.int()), To: rhumb.Offset(r.int()), Reason: rhumb.Reason(r.byte()), At: r.int()}
	if len(r.b) > 0 {
		g.By = r.string()
	}
	return g, r.err("gap row")
}

func encodeTopic(t *Topic) []byte {
	b := append(make([]byte, 0, 128), rowVersion)
	b = putTopic(b, t.Name)
	b = putUint(b, t.Deletions)
	b = putInt(b, t.CreatedAt)
	b = putConfigs(b, sortedConfigs(t.Configs))
	b = putUint(b, uint64(len(t.Partitions)))
	for _, p := range t.Partitions {
		b = putUint(b, uint64(p.Ref.Shard))
		b = putUint(b, uint64(p.Ref.ID))
		b = append(b, p.Life[:]...)
		b = putBool(b, p.Ready)
	}
	return b
}

func decodeTopic(id rhumb.UUID, value []byte) (*Topic, error) {
	r, err := rowBody(value)
	if err != nil {
		return nil, err
	}
	t := &Topic{ID: id, Name: r.topic(), Deletions: r.uint(), CreatedAt: r.int(), Configs: configMap(r.configs())}
	for i := range r.count(19) {
		t.Partitions = append(t.Partitions, TopicPartition{Index: int32(i),
			Ref: rhumb.PartitionRef{Shard: r.shard(), ID: rhumb.PartitionID(r.uint())}, Life: r.life(), Ready: r.bool()})
	}
	return t, r.err("topic row")
}

func settingsKey(scope string) []byte { return append([]byte{tableSettings}, scope...) }

func encodeSettings(configs map[string]string) []byte {
	return putConfigs([]byte{rowVersion}, sortedConfigs(configs))
}

func decodeSettings(value []byte) (map[string]string, error) {
	r, err := rowBody(value)
	if err != nil {
		return nil, err
	}
	configs := configMap(r.configs())
	return configs, r.err("settings row")
}

func encodeCommit(c OffsetCommit) []byte {
	return putCommitValue(append(make([]byte, 0, 64), rowVersion), c)
}

func encodeNumber(v int64) []byte { return putInt([]byte{rowVersion}, v) }

func decodeNumber(value []byte) (int64, error) {
	r, err := rowBody(value)
	if err != nil {
		return 0, err
	}
	v := r.int()
	return v, r.err("number row")
}
