package shard

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A follower that is too late for the entries that its leader keeps is filled up
// by a snapshot. The leader offers one; the follower says how much it has of each
// partition, and pulls chunk after chunk: the leader's tables at one index, then
// the batches that the follower lacks. Raft hears of the snapshot when all of it
// is there, so a transfer that breaks off leaves no trace.

const (
	// maxChunk is how many bytes of rows or batches go into one chunk.
	maxChunk = 1 << 20
	// pullTicks is after how many ticks without an answer a chunk is pulled again.
	pullTicks = 5
	// transferTicks is after how many ticks without a message a transfer is over.
	transferTicks = 50
)

// snapshots is the state of transfers.
type snapshots struct {
	outgoing map[uint64]*outgoing // by receiver
	incoming *incoming
	count    uint64
	ready    *Snapshot // handed to Raft, which has not asked to store it yet
}

// outgoing is a snapshot that a follower pulls, or may pull.
type outgoing struct {
	index    uint64 // entries after it must be kept
	transfer uint64 // 0 until the first pull
	idle     int    // ticks without a message
	term     uint64
	conf     *raftpb.ConfState
	rows     []KV
	ranges   []batchRange
	last     *Message // sent last, in case it was lost
}

// batchRange is what the receiver lacks of a partition.
type batchRange struct {
	partition   rhumb.PartitionID
	from, limit rhumb.Offset
}

// incoming is a snapshot that this replica pulls.
type incoming struct {
	from     uint64
	transfer uint64
	term     uint64 // of the leader that offered
	next     uint32 // chunk that is pulled
	idle     int
	have     []Have
	rows     []KV
	batches  []Stored
}

// offer notes that a follower was told of a snapshot.
func (n *snapshots) offer(to, index uint64) {
	if n.outgoing == nil {
		n.outgoing = make(map[uint64]*outgoing)
	}
	n.outgoing[to] = &outgoing{index: index}
}

// hold gives the index up to which entries may go while followers are filled up.
func (n *snapshots) hold(limit uint64) uint64 {
	for _, o := range n.outgoing {
		limit = min(limit, o.index)
	}
	return limit
}

// tickSnapshots ends transfers that do not move and asks again for lost chunks.
func (s *Shard) tickSnapshots() {
	for to, o := range s.snap.outgoing {
		if o.idle++; o.idle > transferTicks {
			delete(s.snap.outgoing, to)
			s.raft.ReportSnapshot(to, raft.SnapshotFailure) // no news if it has arrived
		}
	}
	in := s.snap.incoming
	if in == nil {
		return
	}
	in.idle++
	switch {
	case in.idle > transferTicks:
		s.snap.incoming = nil
	case in.idle%pullTicks == 0:
		s.pull(in)
	}
}

// takeOffer starts to pull a snapshot, unless one is on its way.
func (s *Shard) takeOffer(m *Message) {
	r := m.Raft
	if r.GetType() != raftpb.MsgSnap || r.GetFrom() != m.From || r.GetTerm() < s.term {
		return
	}
	if in := s.snap.incoming; in != nil && in.from == m.From && in.term == r.GetTerm() {
		return
	}
	s.snap.count++
	in := &incoming{from: m.From, term: r.GetTerm(), transfer: uint64(time.Now().UnixNano())<<8 | s.snap.count&0xff}
	for id, p := range s.m.partitions {
		in.have = append(in.have, Have{id, p.end})
	}
	s.snap.incoming = in
	s.log.Info("shard is filled up by a snapshot", "from", m.From, "index", s.m.index)
	s.pull(in)
}

func (s *Shard) pull(in *incoming) {
	m := &Message{Kind: MessagePull, To: in.from, Term: in.term, Transfer: in.transfer, Seq: in.next}
	if in.next == 0 {
		m.Have = in.have
	}
	s.post(m)
}

// takePull sends a chunk.
func (s *Shard) takePull(m *Message) {
	o := s.snap.outgoing[m.From]
	if !s.leading.Load() || m.Term != s.term || o == nil || m.Seq > 0 && o.transfer != m.Transfer {
		s.post(&Message{Kind: MessageNoOffer, To: m.From, Transfer: m.Transfer})
		return
	}
	o.idle = 0
	if o.transfer != m.Transfer {
		s.collect(o, m)
	}
	switch {
	case o.last != nil && m.Seq == o.last.Seq:
	case o.last == nil && m.Seq == 0, o.last != nil && !o.last.Last && m.Seq == o.last.Seq+1:
		c, err := s.chunk(o, m.Seq)
		if err != nil {
			s.log.Warn("snapshot could not be read", "to", m.From, "err", err)
			delete(s.snap.outgoing, m.From)
			s.raft.ReportSnapshot(m.From, raft.SnapshotFailure)
			return
		}
		c.To, c.Transfer, c.Term, c.Index, c.Conf = m.From, m.Transfer, o.term, o.index, o.conf
		o.last = c
	default:
		return // an old pull that came late
	}
	s.post(o.last)
}

// collect takes the tables as they are now, and what of the logs the receiver
// lacks. A log start that moves while it is sent opens a hole that nobody sees:
// the entry that moved it comes behind.
func (s *Shard) collect(o *outgoing, m *Message) {
	have := make(map[rhumb.PartitionID]rhumb.Offset, len(m.Have))
	for _, h := range m.Have {
		have[h.Partition] = h.End
	}
	*o = outgoing{index: s.m.index, term: s.m.term, transfer: m.Transfer, conf: proto.Clone(s.conf).(*raftpb.ConfState), rows: s.m.dump()}
	for id, p := range s.m.partitions {
		if from := max(have[id], p.logStart); from < p.end {
			o.ranges = append(o.ranges, batchRange{id, from, p.end})
		}
	}
	slices.SortFunc(o.ranges, func(a, b batchRange) int { return int(int64(a.partition) - int64(b.partition)) })
}

func (s *Shard) chunk(o *outgoing, seq uint32) (*Message, error) {
	c := &Message{Kind: MessageChunk, Seq: seq}
	size, n := 0, 0
	for n < len(o.rows) && size < maxChunk {
		size += len(o.rows[n].Key) + len(o.rows[n].Value)
		n++
	}
	c.Rows, o.rows = o.rows[:n], o.rows[n:]
	for len(o.rows) == 0 && len(o.ranges) > 0 && size < maxChunk {
		r := &o.ranges[0]
		found, err := s.cfg.Storage.Read(Query{Partition: r.partition, From: r.from, Limit: r.limit, MaxBytes: maxChunk - size})
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			raw := make([]byte, codec.EnvelopeSize, codec.EnvelopeSize+len(b.Batch))
			b.Envelope.Put(raw, b.Batch)
			c.Batches = append(c.Batches, append(raw, b.Batch...))
			size += cap(raw)
			r.from = b.Base + (b.Envelope.Last - b.Envelope.First) + 1
		}
		if len(found) == 0 || r.from >= r.limit {
			o.ranges = o.ranges[1:]
		}
	}
	c.Last = len(o.rows) == 0 && len(o.ranges) == 0
	return c, nil
}

// takeChunk keeps a chunk, and tells Raft of the snapshot after the last.
func (s *Shard) takeChunk(m *Message) {
	in := s.snap.incoming
	if in == nil || m.From != in.from || m.Transfer != in.transfer || m.Seq != in.next {
		return
	}
	in.idle = 0
	for _, raw := range m.Batches {
		env, batch, _, err := codec.ParseEnvelope(raw)
		var h codec.BatchHeader
		if err == nil {
			h, err = codec.ParseBatch(batch)
		}
		if err != nil {
			s.log.Warn("snapshot chunk is damaged", "from", m.From, "err", err)
			s.snap.incoming = nil
			return
		}
		in.batches = append(in.batches, Stored{Base: h.BaseOffset, Envelope: env, Batch: batch})
	}
	in.rows = append(in.rows, m.Rows...)
	in.next++
	if !m.Last {
		s.pull(in)
		return
	}
	s.snap.incoming = nil
	s.snap.ready = &Snapshot{Index: m.Index, Term: m.Term, Conf: raftpb.EnsureConfState(m.Conf), Rows: in.rows, Batches: in.batches}
	meta := &raftpb.SnapshotMetadata{ConfState: s.snap.ready.Conf, Index: new(m.Index), Term: new(m.Term)}
	err := s.raft.Step(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(in.from), To: new(s.cfg.Node), Term: new(in.term), Snapshot: &raftpb.Snapshot{Metadata: meta}})
	if err != nil {
		s.log.Debug("raft refused a snapshot", "err", err)
	}
}

// install replaces this replica's state by the snapshot that Raft took.
func (s *Shard) install(meta *raftpb.Snapshot, hs *raftpb.HardState, responses []*raftpb.Message) {
	snap := s.snap.ready
	s.snap.ready = nil
	if snap == nil || snap.Index != meta.GetMetadata().GetIndex() || snap.Term != meta.GetMetadata().GetTerm() {
		s.failed = rhumb.Errorf(rhumb.KindInternal, "shard %d: raft took a snapshot at %d that never came", s.cfg.ID, meta.GetMetadata().GetIndex())
		return
	}
	installer, ok := s.cfg.Storage.(Installer)
	if !ok {
		s.failed = rhumb.Errorf(rhumb.KindUnsupported, "shard %d: the storage takes no snapshots", s.cfg.ID)
		return
	}
	snap.HardState = hs
	if err := s.m.replace(snap); err != nil {
		s.failed = err
		return
	}
	s.conf, s.confSaved = snap.Conf, true
	s.keep = keptEntries{}
	installer.Install(snap, func(err error) { s.onSaved(responses, err) })
	s.flushed.Store(max(s.flushed.Load(), snap.Index)) // a snapshot holds what is committed
	for _, p := range s.m.partitions {
		p.publish(snap.Index, snap.Index)
	}
	s.changed()
}

// replace makes the machine hold a snapshot's rows. Who waits for a partition
// that is still there goes on waiting.
func (m *machine) replace(snap *Snapshot) error {
	fresh := newMachine(m.shard, m.number)
	for _, kv := range snap.Rows {
		if err := fresh.load(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	if err := fresh.loaded(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range fresh.partitions {
		p.moved = true
		if old := m.partitions[id]; old != nil {
			p.view = old.view
		}
	}
	for id, p := range m.partitions {
		if fresh.partitions[id] == nil {
			p.depart()
		}
	}
	m.index, m.term, m.time, m.block, m.clusterID = snap.Index, snap.Term, fresh.time, fresh.block, fresh.clusterID
	m.partitions, m.groups, m.topics, m.names = fresh.partitions, fresh.groups, fresh.topics, fresh.names
	m.doomed, m.deletions, m.byTopic = fresh.doomed, fresh.deletions, fresh.byTopic
	return nil
}
