package shard

import (
	"maps"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// stored is a batch command taken apart.
type stored struct {
	env   codec.Envelope
	batch codec.BatchHeader
	part  *partition
}

// openBatch reads the batch of a command and finds its partition. A result with
// an error means refused; an error means that the entry cannot be read.
func (m *machine) openBatch(ctx entry, body, next int) (s stored, refusal error, err error) {
	env, batch, n, err := codec.ParseEnvelope(ctx.data[body:next])
	if err != nil {
		return s, nil, err
	}
	if n != next-body {
		return s, nil, rhumb.Errorf(rhumb.KindCorrupt, "shard: %d bytes follow a batch", next-body-n)
	}
	h, err := codec.ParseBatch(batch)
	if err != nil {
		return s, nil, err
	}
	s = stored{env: env, batch: h, part: m.partitions[env.Partition]}
	switch {
	case s.part == nil:
		return s, rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", m.shard, env.Partition), nil
	case h.BaseOffset != s.part.end:
		return s, rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: offset %d proposed at end %d", m.shard, env.Partition, h.BaseOffset, s.part.end), nil
	case h.LastOffsetDelta < 0:
		return s, rhumb.Errorf(rhumb.KindInvalid, "shard %d, partition %d: last offset delta %d", m.shard, env.Partition, h.LastOffsetDelta), nil
	}
	return s, nil, nil
}

func refused(err error) result { return result{refused: true, base: rhumb.NoOffset, err: err} }

// applyAppend stores a batch that was published here.
func (m *machine) applyAppend(ctx entry, body, next int) (result, error) {
	s, refusal, err := m.openBatch(ctx, body, next)
	if err != nil {
		return result{}, err
	}
	if refusal != nil {
		return refused(refusal), nil
	}
	p, h := s.part, s.batch
	base, last := h.BaseOffset, h.LastOffset()
	chain := codec.NextChain(p.ownChain, base, last, h.CRC)
	if s.env.Life != p.life || s.env.First != base || s.env.Last != last || s.env.Prev != p.ownLast || s.env.Chain != chain {
		return refused(rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: batch %d does not continue the log", m.shard, p.id, base)), nil
	}
	if h.Idempotent() {
		pr := p.producer(h.ProducerID)
		seqLast := dedup.LastSequence(h.BaseSequence, h.Count)
		if v, _ := pr.state().Judge(h.ProducerEpoch, h.BaseSequence, seqLast); v != dedup.SequenceNew {
			p.forgetProducer(pr)
			return refused(rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: batch of producer %d is %s at apply", m.shard, p.id, h.ProducerID, v)), nil
		}
		m.setProducer(p, pr, pr.applied.Accept(h.ProducerEpoch, dedup.SeqRange{First: h.BaseSequence, Last: seqLast, Base: base, Time: ctx.time}))
	}
	p.ownLast, p.ownChain = last, chain
	m.store(ctx, s, body, next)
	return result{base: base}, nil
}

// applyLink stores a batch of another region together with its watermark.
func (m *machine) applyLink(ctx entry, body, next int) (result, error) {
	s, refusal, err := m.openBatch(ctx, body, next)
	if err != nil {
		return result{}, err
	}
	if refusal != nil {
		return refused(refusal), nil
	}
	p := s.part
	k := p.mark(originKey{s.env.Region, s.env.Life})
	b := dedup.OriginBatchOf(&s.env, s.batch)
	if v := k.applied.Judge(b); v != dedup.Accept || owns(p.life, p.past, s.env.Life) {
		p.forgetMark(k)
		return refused(rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: batch %s is %s at apply", m.shard, p.id, s.env.Origin(), v)), nil
	}
	m.setMark(p, k, k.applied.Accept(b))
	m.store(ctx, s, body, next)
	return result{base: s.batch.BaseOffset}, nil
}

func (m *machine) store(ctx entry, s stored, body, next int) {
	p := s.part
	m.touch(p)
	p.end = s.batch.LastOffset() + 1
	p.lastAppend = ctx.time
	m.update.Batches = append(m.update.Batches, BatchRef{
		Partition: p.id, Index: ctx.index, At: body, Envelope: s.env, Base: s.batch.BaseOffset,
		MaxTimestamp: max(s.batch.FirstTimestamp, s.batch.MaxTimestamp), Bytes: ctx.data[body:next:next],
	})
}

// applySkip moves a watermark where no data does.
func (m *machine) applySkip(ctx entry, c *skipCommand) result {
	p := m.partitions[c.partition]
	if p == nil {
		return refused(rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", m.shard, c.partition))
	}
	k := p.mark(originKey{c.region, c.life})
	if v := k.applied.JudgeSkip(c.skip); v != dedup.Accept || owns(p.life, p.past, c.life) {
		p.forgetMark(k)
		return refused(rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: skip to %d is %s at apply", m.shard, p.id, c.skip.To, v))
	}
	if c.skip.Reason.IsGap() {
		g := Gap{Region: c.region, Life: c.life, From: k.applied.Offset + 1, To: c.skip.To, Reason: c.skip.Reason, At: ctx.time, By: c.skip.By}
		if c.skip.Reason == rhumb.ReasonDiverged { // what is here from there on is not what the gap speaks of
			g.From = c.skip.From + 1
		}
		m.set(gapKey(p.id, p.gapCount), encodeGap(g))
		p.view.mu.Lock()
		p.gaps = append(p.gaps, g)
		p.view.mu.Unlock()
		p.gapCount++
	}
	m.setMark(p, k, k.applied.Skip(c.skip))
	return result{}
}

// applyLogStart drops what lies below a new log start. It only grows (I2).
func (m *machine) applyLogStart(_ entry, c *logStartCommand) result {
	p := m.partitions[c.partition]
	switch {
	case p == nil:
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", m.shard, c.partition)}
	case c.start > p.end:
		return result{value: p.logStart, err: rhumb.Errorf(rhumb.KindOutOfRange, "shard %d, partition %d: log start %d past the end %d", m.shard, p.id, c.start, p.end)}
	case c.start <= p.logStart:
		return result{value: p.logStart}
	}
	m.touch(p)
	p.logStart = c.start
	p.noteStart(c)
	m.update.LogStarts = append(m.update.LogStarts, LogStart{Partition: p.id, Start: c.start})
	for _, f := range c.floors {
		k := p.marks[originKey{f.region, f.life}]
		if k == nil || !k.known {
			continue
		}
		if floor := min(f.floor, k.applied.Offset); floor > k.applied.Floor {
			w := k.applied
			w.Floor = floor
			m.setMark(p, k, w)
		}
	}
	return result{value: p.logStart}
}

// applyEdgeStart fixes from where an edge carries the partition, once.
func (m *machine) applyEdgeStart(_ entry, c *edgeStartCommand) result {
	p := m.partitions[c.partition]
	if p == nil {
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", m.shard, c.partition)}
	}
	if start, ok := p.edges[c.dest]; ok {
		return result{value: start}
	}
	start := p.logStart
	if c.latest {
		start = p.end
	}
	edges := maps.Clone(p.edges) // readers share the old one
	if edges == nil {
		edges = make(map[rhumb.RegionNumber]rhumb.Offset)
	}
	edges[c.dest] = start
	p.edges = edges
	m.touch(p)
	m.set(edgeKey(p.id, c.dest), encodeNumber(int64(start)))
	return result{value: start}
}

// applyExpireProducers forgets producers that were not used for long. The leader
// says since when, by the times of entries, so all replicas forget the same.
func (m *machine) applyExpireProducers(_ entry, c *expireProducersCommand) result {
	p := m.partitions[c.partition]
	if p == nil {
		return result{}
	}
	for id, pr := range p.producers {
		if !pr.known || pr.applied.LastUse >= c.before {
			continue
		}
		m.unset(producerKey(p.id, id))
		pr.known, pr.applied = false, dedup.Producer{}
		if pr.spec.pending == 0 {
			delete(p.producers, id)
		}
	}
	return result{}
}

// applyCreatePartition starts a partition's log. It is idempotent: the second
// one gets the first one's log. The entry's index is the partition's id, so an
// entry creates one partition at most.
func (m *machine) applyCreatePartition(ctx entry, c *createPartitionCommand) result {
	if p := m.byTopic[c.topicID][c.index]; p != nil {
		return result{value: p}
	}
	id := rhumb.PartitionID(ctx.index)
	if m.partitions[id] != nil {
		return result{err: rhumb.Errorf(rhumb.KindInvalid, "shard %d: entry %d creates two partitions", m.shard, ctx.index)}
	}
	p := newPartition(id)
	p.topicID, p.topic, p.index, p.deletions, p.life, p.createdAt = c.topicID, c.topic, c.index, c.deletions, c.life, ctx.time
	m.addPartition(p)
	m.set(partitionKey(tablePartition, id), encodePartition(p))
	m.touch(p)
	return result{value: p}
}

func (m *machine) addPartition(p *partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions[p.id] = p
	if m.byTopic[p.topicID] == nil {
		m.byTopic[p.topicID] = make(map[int32]*partition)
	}
	m.byTopic[p.topicID][p.index] = p
}

// applyDropTopic removes a topic's partitions and the offsets that groups have
// in it. It is idempotent.
func (m *machine) applyDropTopic(_ entry, c *dropTopicCommand) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.byTopic[c.topicID] {
		p.dump(func(key, _ []byte) { m.unset(key) })
		m.update.Drops = append(m.update.Drops, p.id)
		delete(m.partitions, p.id)
		m.touch(p)
	}
	delete(m.byTopic, c.topicID)
	for key, g := range m.groups {
		for o := range g.offsets {
			if o.TopicID == c.topicID {
				m.dropOffset(g, o)
				m.unset(offsetRowKey(key, o))
			}
		}
		m.forgetEmpty(key, g)
	}
	return result{}
}
