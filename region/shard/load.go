package shard

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// load puts one row of the state database, or of a snapshot, back in memory.
// Rows come in any order; loaded checks the whole.
func (m *machine) load(key, value []byte) error {
	if len(key) == 0 {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: a row without a key", m.shard)
	}
	switch key[0] {
	case tablePartition, tablePosition, tableWatermark, tableProducer, tableEdge, tableGap, tablePastLife:
		return m.loadPartitionRow(key, value)
	case tableOffset, tableGroup:
		return m.loadGroupRow(key, value)
	case tableTopic, tableDoomed, tableDeletion, tableSettings, tableMeta:
		return m.loadRegionRow(key, value)
	}
	return rhumb.Errorf(rhumb.KindUnsupported, "shard %d: table %q needs a newer reader", m.shard, key[0])
}

func (m *machine) loadPartitionRow(key, value []byte) error {
	id, rest, err := keyID(key)
	if err != nil {
		return err
	}
	p := m.partitions[id]
	if p == nil {
		p = newPartition(id)
		m.partitions[id] = p
	}
	switch key[0] {
	case tablePartition:
		return decodePartition(p, value)
	case tablePosition:
		return decodePosition(p, value)
	case tableWatermark:
		w, _, err := dedup.ParseWatermark(value)
		if err == nil {
			k := p.mark(originKey{w.Region, w.Life})
			k.applied, k.known, p.moved = w, true, true
		}
		return err
	case tableProducer:
		if len(rest) != 8 {
			return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: producer key %x", m.shard, key)
		}
		state, _, err := dedup.ParseProducer(value)
		if err == nil {
			pr := p.producer(int64(binary.BigEndian.Uint64(rest)))
			pr.applied, pr.known = state, true
		}
		return err
	case tableEdge:
		return p.loadEdge(rest, value)
	case tablePastLife:
		l, err := decodePastLife(value)
		if err == nil {
			p.past = append(p.past, l) // keys sort by number, and rows come sorted
		}
		return err
	default:
		g, err := decodeGap(value)
		if err == nil {
			p.gaps = append(p.gaps, g) // keys sort by number, and rows come sorted
		}
		return err
	}
}

func (p *partition) loadEdge(dest, value []byte) error {
	start, err := decodeNumber(value)
	if err != nil || len(dest) != 2 {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard: edge row of partition %d", p.id)
	}
	if p.edges == nil {
		p.edges = make(map[rhumb.RegionNumber]rhumb.Offset)
	}
	p.edges[rhumb.RegionNumber(binary.BigEndian.Uint16(dest))] = rhumb.Offset(start)
	return nil
}

func (m *machine) loadGroupRow(key, value []byte) error {
	r := reader{b: key[1:]}
	k := r.groupKey()
	if key[0] == tableGroup {
		if err := r.err("group key"); err != nil {
			return err
		}
		m.group(k).blob = append([]byte(nil), value...)
		return nil
	}
	c := OffsetCommit{TopicID: r.uuid()}
	if b := r.take(4); b != nil {
		c.Partition = int32(binary.BigEndian.Uint32(b))
	}
	if err := r.err("offset key"); err != nil {
		return err
	}
	v, err := rowBody(value)
	if err != nil {
		return err
	}
	v.commitValue(&c)
	m.setOffset(m.group(k), c)
	return v.err("offset row")
}

func (m *machine) loadRegionRow(key, value []byte) error {
	r := reader{b: key[1:]}
	switch key[0] {
	case tableTopic, tableDoomed:
		t, err := decodeTopic(r.uuid(), value)
		if err != nil || r.bad {
			return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: topic row %x: %v", m.shard, key, err)
		}
		if key[0] == tableDoomed {
			m.doomed[t.ID] = t
			return nil
		}
		m.holdTopic(t)
		return nil
	case tableSettings:
		configs, err := decodeSettings(value)
		m.settings[string(key[1:])] = configs
		return err
	case tableDeletion:
		n, err := decodeNumber(value)
		m.deletions[r.topic()] = uint64(n)
		if err == nil {
			err = r.err("deletion key")
		}
		return err
	}
	return m.loadMeta(key, value)
}

func (m *machine) loadMeta(key, value []byte) (err error) {
	switch string(key) {
	case string(metaClusterID):
		r := reader{b: value}
		m.clusterID = r.uuid()
		return r.err("cluster id")
	case string(metaBlock):
		m.block, err = decodeNumber(value)
	case string(metaTime):
		m.time, err = decodeNumber(value)
	}
	return err // a name that a later version added says nothing to this one
}

// loaded checks that the rows make sense together, and indexes them.
func (m *machine) loaded() error {
	for id, p := range m.partitions {
		if p.life.IsZero() {
			return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: rows of partition %d, which was never created", m.shard, id)
		}
		if uint64(len(p.gaps)) != p.gapCount {
			return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: %d gap records of partition %d, want %d", m.shard, len(p.gaps), id, p.gapCount)
		}
		m.addPartition(p)
	}
	return nil
}
