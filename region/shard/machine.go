package shard

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"go.etcd.io/raft/v3/raftpb"
)

// machine is the shard's state machine (I11): its state is a function of the
// entries that it applied, and of nothing else. Only the shard's goroutine
// changes it, and only it may read without mu.
type machine struct {
	shard  rhumb.ShardID
	number rhumb.RegionNumber

	index uint64 // of the last entry applied
	term  uint64 // of that entry
	time  int64  // of the last entry that had commands, ms

	// mu is held while maps below change, so that other goroutines can read them.
	mu         sync.RWMutex
	partitions map[rhumb.PartitionID]*partition
	groups     map[GroupKey]*group
	topics     map[rhumb.UUID]*Topic
	names      map[rhumb.Topic]*Topic
	doomed     map[rhumb.UUID]*Topic
	unready    map[rhumb.UUID]*Topic // those of topics that have a partition without a log
	deletions  map[rhumb.Topic]uint64
	clusterID  rhumb.UUID
	topicsSeen uint64                       // grows with each change of topics
	journal    journal                      // which they were
	parts      int                          // partitions of all topics
	settings   map[string]map[string]string // by scope; a map is never changed

	// What committed offsets of all groups take.
	offsetCount, offsetBytes atomic.Int64

	byTopic map[rhumb.UUID]map[int32]*partition
	block   int64 // last block of producer ids given out, -1 if none

	// Collected since the last update.
	dirty   []*partition
	touched []*partition // to be published
	update  Update
	places  map[string]int // once there is a delete: key → place in Sets, or -1 - place in Deletes
}

// group is a consumer group's durable state.
type group struct {
	blob    []byte
	offsets map[OffsetKey]OffsetCommit
	bytes   int64 // of offsets, in memory
}

// result is what applying one command gave.
type result struct {
	// refused means that the leader's copy was wrong: it must be dropped.
	refused bool
	base    rhumb.Offset
	value   any
	err     error
}

func newMachine(id rhumb.ShardID, number rhumb.RegionNumber) *machine {
	return &machine{
		shard: id, number: number, block: -1,
		partitions: make(map[rhumb.PartitionID]*partition), groups: make(map[GroupKey]*group),
		topics: make(map[rhumb.UUID]*Topic), names: make(map[rhumb.Topic]*Topic), doomed: make(map[rhumb.UUID]*Topic), unready: make(map[rhumb.UUID]*Topic),
		deletions: make(map[rhumb.Topic]uint64), byTopic: make(map[rhumb.UUID]map[int32]*partition),
		settings: make(map[string]map[string]string),
		places:   make(map[string]int), journal: journal{first: 1},
	}
}

// entry is the one being applied.
type entry struct {
	index uint64
	time  int64
	data  []byte
}

// apply applies one entry and appends a result per command to results. An error
// means that this replica cannot go on: it cannot read what others may have
// applied.
func (m *machine) apply(e *raftpb.Entry, results []result) ([]result, error) {
	if e.GetIndex() != m.index+1 && m.index != 0 {
		panic(fmt.Sprintf("shard %d: entry %d applied after %d", m.shard, e.GetIndex(), m.index))
	}
	data := e.GetData()
	m.index, m.term = e.GetIndex(), e.GetTerm()
	if len(data) == 0 {
		return results, nil // a new leader's first entry
	}
	h, at, err := parseEntry(data)
	if err != nil {
		return results, fmt.Errorf("shard %d, entry %d: %w", m.shard, e.GetIndex(), err)
	}
	fenced := h.epoch != e.GetTerm()
	m.time = max(m.time, h.time)
	ctx := entry{index: e.GetIndex(), time: m.time, data: data}
	for range h.commands {
		k, body, next, err := parseCommand(data, at)
		if err != nil {
			return results, fmt.Errorf("shard %d, entry %d: %w", m.shard, e.GetIndex(), err)
		}
		var r result
		if fenced {
			r = result{refused: true, err: rhumb.Errorf(rhumb.KindFenced, "shard %d: entry of term %d proposed in term %d", m.shard, e.GetTerm(), h.epoch)}
		} else if r, err = m.applyCommand(ctx, k, body, next); err != nil {
			return results, fmt.Errorf("shard %d, entry %d, command at %d: %w", m.shard, e.GetIndex(), at, err)
		}
		results = append(results, r)
		at = next
	}
	return results, nil
}

func (m *machine) applyCommand(ctx entry, k kind, body, next int) (result, error) {
	switch k {
	case kindAppend:
		return m.applyAppend(ctx, body, next)
	case kindLink:
		return m.applyLink(ctx, body, next)
	}
	b := ctx.data[body:next]
	switch k {
	case kindSkip:
		return run(decodeSkip, b, ctx, m.applySkip)
	case kindLogStart:
		return run(decodeLogStart, b, ctx, m.applyLogStart)
	case kindEdgeStart:
		return run(decodeEdgeStart, b, ctx, m.applyEdgeStart)
	case kindExpireProducers:
		return run(decodeExpireProducers, b, ctx, m.applyExpireProducers)
	case kindCreatePartition:
		return run(decodeCreatePartition, b, ctx, m.applyCreatePartition)
	case kindDropTopic:
		return run(decodeDropTopic, b, ctx, m.applyDropTopic)
	case kindCommitOffsets:
		return run(decodeCommitOffsets, b, ctx, m.applyCommitOffsets)
	case kindDeleteOffsets:
		return run(decodeDeleteOffsets, b, ctx, m.applyDeleteOffsets)
	case kindPutGroup:
		return run(decodePutGroup, b, ctx, m.applyPutGroup)
	case kindCreateTopic:
		return run(decodeCreateTopic, b, ctx, m.applyCreateTopic)
	case kindGrowTopic:
		return run(decodeGrowTopic, b, ctx, m.applyGrowTopic)
	case kindDeleteTopic:
		return run(decodeDeleteTopic, b, ctx, m.applyDeleteTopic)
	case kindDeleteHere:
		return run(decodeDeleteHere, b, ctx, m.applyDeleteHere)
	case kindSetConfigs:
		return run(decodeSetConfigs, b, ctx, m.applySetConfigs)
	case kindPartitionReady:
		return run(decodePartitionReady, b, ctx, m.applyPartitionReady)
	case kindTopicGone:
		return run(decodeTopicGone, b, ctx, m.applyTopicGone)
	case kindInitRegion:
		return run(decodeInitRegion, b, ctx, m.applyInitRegion)
	case kindPutSettings:
		return run(decodePutSettings, b, ctx, m.applyPutSettings)
	case kindNewLife:
		return run(decodeNewLife, b, ctx, m.applyNewLife)
	case kindProducerBlock:
		return m.applyProducerBlock(ctx), nil
	}
	return result{}, rhumb.Errorf(rhumb.KindUnsupported, "shard: command %d needs a newer reader", k)
}

func run[C any](decode func([]byte) (C, error), body []byte, ctx entry, apply func(entry, C) result) (result, error) {
	c, err := decode(body)
	if err != nil {
		return result{}, err
	}
	return apply(ctx, c), nil
}

// set and unset collect rows. Within one update a key is set or deleted, never
// both: the later one wins.
func (m *machine) set(key, value []byte) {
	u := &m.update
	if len(u.Deletes) > 0 {
		m.forget(u.Deletes, key)
		m.places[string(key)] = len(u.Sets)
	}
	u.Sets = append(u.Sets, KV{Key: key, Value: value})
}

func (m *machine) unset(key []byte) {
	u := &m.update
	if len(u.Deletes) == 0 {
		clear(m.places)
		for i, kv := range u.Sets {
			if old, ok := m.places[string(kv.Key)]; ok {
				u.Sets[old].Key = nil
			}
			m.places[string(kv.Key)] = i
		}
	}
	if i, ok := m.places[string(key)]; ok && i >= 0 {
		u.Sets[i].Key = nil
	}
	m.places[string(key)] = -1 - len(u.Deletes)
	u.Deletes = append(u.Deletes, key)
}

// forget takes back what was collected for a key before.
func (m *machine) forget(deletes [][]byte, key []byte) {
	switch i, ok := m.places[string(key)]; {
	case !ok:
	case i < 0:
		deletes[-1-i] = nil
	default:
		m.update.Sets[i].Key = nil
	}
}

// flush encodes the rows that changed and gives the update for the storage. The
// partitions that it touches are left in m.touched, to be published after the
// storage has it.
func (m *machine) flush() *Update {
	u := &m.update
	u.Index, u.Term = m.index, m.term
	for _, p := range m.dirty {
		p.dirty = false
		if m.partitions[p.id] == p {
			m.set(partitionKey(tablePosition, p.id), encodePosition(make([]byte, 0, 64), p))
			for _, k := range p.dirtyMarks {
				m.set(watermarkKey(p.id, originKey{k.applied.Region, k.applied.Life}), k.applied.Append(make([]byte, 0, 128)))
				k.dirty = false
			}
			for _, pr := range p.dirtyProducers {
				if pr.known {
					m.set(producerKey(p.id, pr.id), pr.applied.Append(make([]byte, 0, 144)))
				}
				pr.dirty = false
			}
		}
		clear(p.dirtyMarks)
		clear(p.dirtyProducers)
		p.dirtyMarks, p.dirtyProducers = p.dirtyMarks[:0], p.dirtyProducers[:0]
	}
	m.set(metaTime, encodeNumber(m.time))
	m.dirty, m.touched = m.touched[:0], m.dirty
	if len(u.Deletes) > 0 {
		u.Sets = slices.DeleteFunc(u.Sets, func(kv KV) bool { return kv.Key == nil })
		u.Deletes = slices.DeleteFunc(u.Deletes, func(key []byte) bool { return key == nil })
	}
	return u
}

// applied forgets what the storage has taken.
func (m *machine) applied() {
	u := &m.update
	clear(u.Sets)
	clear(u.Deletes)
	clear(u.Batches)
	*u = Update{Sets: u.Sets[:0], Deletes: u.Deletes[:0], Batches: u.Batches[:0], LogStarts: u.LogStarts[:0], Drops: u.Drops[:0]}
}

// dump gives all rows, sorted by key: what a snapshot carries, and what must be
// equal on replicas at equal index.
func (m *machine) dump() []KV {
	var rows []KV
	add := func(key, value []byte) { rows = append(rows, KV{Key: key, Value: value}) }
	for _, p := range m.partitions {
		p.dump(add)
	}
	for k, g := range m.groups {
		if len(g.blob) > 0 {
			add(groupRowKey(k), g.blob)
		}
		for o, c := range g.offsets {
			add(offsetRowKey(k, o), encodeCommit(c))
		}
	}
	for id, t := range m.topics {
		add(topicKey(tableTopic, id), encodeTopic(t))
	}
	for id, t := range m.doomed {
		add(topicKey(tableDoomed, id), encodeTopic(t))
	}
	for scope, configs := range m.settings {
		add(settingsKey(scope), encodeSettings(configs))
	}
	for t, n := range m.deletions {
		add(deletionKey(t), encodeNumber(int64(n)))
	}
	if !m.clusterID.IsZero() {
		add(metaClusterID, m.clusterID[:])
	}
	if m.block >= 0 {
		add(metaBlock, encodeNumber(m.block))
	}
	add(metaTime, encodeNumber(m.time))
	slices.SortFunc(rows, func(a, b KV) int { return bytes.Compare(a.Key, b.Key) })
	return rows
}

func (p *partition) dump(add func(key, value []byte)) {
	add(partitionKey(tablePartition, p.id), encodePartition(p))
	add(partitionKey(tablePosition, p.id), encodePosition(nil, p))
	for k, w := range p.marks {
		if w.known {
			add(watermarkKey(p.id, k), w.applied.Append(nil))
		}
	}
	for _, pr := range p.producers {
		if pr.known {
			add(producerKey(p.id, pr.id), pr.applied.Append(nil))
		}
	}
	for dest, start := range p.edges {
		add(edgeKey(p.id, dest), encodeNumber(int64(start)))
	}
	for i, l := range p.past {
		add(pastLifeKey(p.id, uint64(i)), encodePastLife(l))
	}
	for i, g := range p.gaps {
		add(gapKey(p.id, p.gapCount-uint64(len(p.gaps))+uint64(i)), encodeGap(g))
	}
}
