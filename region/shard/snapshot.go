package shard

import (
	"errors"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A follower that is too late for the entries that its leader keeps is filled up
// by a snapshot. The leader offers one; the follower says how far it has applied,
// and pulls piece after piece: the leader's tables at one index, and the batches
// that the follower lacks. Raft hears of the snapshot when all of it is there, so
// a transfer that breaks off leaves no trace.

const (
	// pullTicks is after how many ticks without an answer a piece is pulled again.
	pullTicks = 5
	// transferTicks is after how many ticks without a message a transfer is over.
	transferTicks = 50
)

// snapshots is the state of transfers.
type snapshots struct {
	outgoing map[uint64]*outgoing // by receiver
	incoming *incoming
	count    uint64

	// taken is a snapshot that is all here and that Raft was told of.
	taken *incoming
	// committing is set from the storage's Commit to its Finish; what Raft wants
	// saved meanwhile is held back.
	committing bool
	held       []*raftpb.Message
}

// outgoing is a snapshot that a follower pulls, or may pull.
type outgoing struct {
	index    uint64 // entries after it must be kept
	transfer uint64 // 0 until the first pull
	idle     int    // ticks without a message
	source   SnapshotSource
	next     []byte // read ahead, to know which piece is the last
	last     *Message
}

func (o *outgoing) end() {
	if o.source != nil {
		_ = o.source.Close() // it was only read
		o.source = nil
	}
}

// incoming is a snapshot that this replica pulls.
type incoming struct {
	from     uint64
	transfer uint64
	term     uint64 // of the leader that offered
	next     uint32 // piece that is pulled
	idle     int
	install  SnapshotInstall // nil until the first piece
	meta     *raftpb.SnapshotMetadata
}

// offer notes that a follower was told of a snapshot.
func (s *Shard) offer(to, index uint64) {
	n := &s.snap
	if n.outgoing == nil {
		n.outgoing = make(map[uint64]*outgoing)
	}
	if o := n.outgoing[to]; o != nil {
		o.end()
	}
	n.outgoing[to] = &outgoing{index: index}
}

func (s *Shard) endOffers() {
	for _, o := range s.snap.outgoing {
		o.end()
	}
	s.snap.outgoing = nil
}

// endOffer ends one transfer; Raft starts again, unless it has succeeded.
func (s *Shard) endOffer(to uint64) {
	s.snap.outgoing[to].end()
	delete(s.snap.outgoing, to)
	s.raft.ReportSnapshot(to, raft.SnapshotFailure)
}

// giveUp forgets what has come of a snapshot.
func (s *Shard) giveUp() {
	for _, in := range [...]*incoming{s.snap.incoming, s.snap.taken} {
		if in != nil && in.install != nil && !s.snap.committing {
			in.install.Abort()
		}
	}
	s.snap.incoming, s.snap.taken = nil, nil
}

// hold gives the index up to which entries may go while followers are filled up.
func (n *snapshots) hold(limit uint64) uint64 {
	for _, o := range n.outgoing {
		limit = min(limit, o.index)
	}
	return limit
}

// tickSnapshots ends transfers that do not move and asks again for lost pieces.
func (s *Shard) tickSnapshots() {
	for to, o := range s.snap.outgoing {
		if o.idle++; o.idle > transferTicks {
			s.endOffer(to)
		}
	}
	in := s.snap.incoming
	if in == nil {
		return
	}
	in.idle++
	switch {
	case in.idle > transferTicks:
		s.giveUp()
	case in.idle%pullTicks == 0:
		s.pull(in)
	}
}

// takeOffer starts to pull a snapshot, unless one is on its way.
func (s *Shard) takeOffer(m *Message) {
	r := m.Raft
	if r.GetType() != raftpb.MsgSnap || r.GetFrom() != m.From || r.GetTerm() < s.term || s.snap.committing {
		return
	}
	if in := s.snap.incoming; in != nil && in.from == m.From && in.term == r.GetTerm() {
		return
	}
	s.giveUp()
	s.snap.count++
	in := &incoming{from: m.From, term: r.GetTerm(), transfer: uint64(time.Now().UnixNano())<<8 | s.snap.count&0xff}
	s.snap.incoming = in
	s.log.Info("shard is filled up by a snapshot", "from", m.From, "index", s.m.index)
	s.pull(in)
}

func (s *Shard) pull(in *incoming) {
	s.post(&Message{Kind: MessagePull, To: in.from, Term: in.term, Index: s.m.index, Transfer: in.transfer, Seq: in.next})
}

// takePull sends a piece.
func (s *Shard) takePull(m *Message) {
	o := s.snap.outgoing[m.From]
	if !s.leading.Load() || m.Term != s.term || o == nil || m.Seq > 0 && o.transfer != m.Transfer {
		s.post(&Message{Kind: MessageNoOffer, To: m.From, Transfer: m.Transfer})
		return
	}
	o.idle = 0
	if o.transfer != m.Transfer {
		if err := s.openSource(o, m); err != nil {
			s.sourceFailed(m.From, err)
			return
		}
	}
	switch {
	case o.last != nil && m.Seq == o.last.Seq:
	case o.last == nil && m.Seq == 0, o.last != nil && !o.last.Last && m.Seq == o.last.Seq+1:
		if err := s.nextPiece(o, m); err != nil {
			s.sourceFailed(m.From, err)
			return
		}
	default:
		return // an old pull that came late
	}
	s.post(o.last)
}

func (s *Shard) sourceFailed(to uint64, err error) {
	s.log.Warn("snapshot could not be read", "to", to, "err", err)
	s.endOffer(to)
}

// openSource takes the state as it is now. A log start that moves while it is sent
// needs no care: the entry that moved it comes behind.
func (s *Shard) openSource(o *outgoing, m *Message) error {
	o.end()
	source, err := s.cfg.Storage.OpenSnapshot(m.Index)
	if err != nil {
		return err
	}
	*o = outgoing{index: source.Metadata().GetIndex(), transfer: m.Transfer, source: source}
	o.next, err = source.Next()
	return err
}

func (s *Shard) nextPiece(o *outgoing, m *Message) error {
	meta := o.source.Metadata()
	p := &Message{Kind: MessagePiece, To: m.From, Term: meta.GetTerm(), Index: meta.GetIndex(), Transfer: m.Transfer, Seq: m.Seq,
		Conf: proto.Clone(meta.GetConfState()).(*raftpb.ConfState), Piece: o.next}
	var err error
	if o.next, err = o.source.Next(); errors.Is(err, io.EOF) {
		p.Last, err = true, nil
		o.end()
	}
	o.last = p
	return err
}

// takePiece keeps a piece, and tells Raft of the snapshot after the last.
func (s *Shard) takePiece(m *Message) {
	in := s.snap.incoming
	if in == nil || m.From != in.from || m.Transfer != in.transfer || m.Seq != in.next {
		return
	}
	in.idle = 0
	if err := s.addPiece(in, m); err != nil {
		s.log.Warn("snapshot could not be taken", "from", m.From, "index", m.Index, "err", err)
		s.giveUp()
		return
	}
	in.next++
	if !m.Last {
		s.pull(in)
		return
	}
	s.snap.incoming, s.snap.taken = nil, in
	err := s.raft.Step(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(in.from), To: new(s.cfg.Node), Term: new(in.term), Snapshot: &raftpb.Snapshot{Metadata: in.meta}})
	if err != nil {
		s.log.Debug("raft refused a snapshot", "err", err)
	}
}

func (s *Shard) addPiece(in *incoming, m *Message) error {
	if in.install == nil {
		in.meta = &raftpb.SnapshotMetadata{ConfState: raftpb.EnsureConfState(m.Conf), Index: new(m.Index), Term: new(m.Term)}
		install, err := s.cfg.Storage.BeginInstall(in.meta)
		if err != nil {
			return err
		}
		in.install = install
	}
	if m.Index != in.meta.GetIndex() || m.Term != in.meta.GetTerm() {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard %d: piece %d is of a snapshot at %d, not %d", s.cfg.ID, m.Seq, m.Index, in.meta.GetIndex())
	}
	return in.install.Add(m.Piece, func(err error) { s.onSaved(nil, err) })
}

// install makes the snapshot that Raft took count.
func (s *Shard) install(meta *raftpb.SnapshotMetadata, hs *raftpb.HardState, responses []*raftpb.Message) {
	in := s.snap.taken
	if in == nil || in.meta.GetIndex() != meta.GetIndex() || in.meta.GetTerm() != meta.GetTerm() {
		s.failed = rhumb.Errorf(rhumb.KindInternal, "shard %d: raft took a snapshot at %d that never came", s.cfg.ID, meta.GetIndex())
		return
	}
	s.snap.committing = true
	in.install.Commit(hs, func(err error) {
		s.mu.Lock()
		s.calls = append(s.calls, func() { s.installed(in, responses, err) })
		s.mu.Unlock()
		s.signal()
	})
}

// installed is called when a snapshot is on disk: this replica goes on from it, or the
// next one that is opened there.
func (s *Shard) installed(in *incoming, responses []*raftpb.Message, err error) {
	if s.failed != nil {
		return // Raft may be in the middle of something
	}
	if err == nil {
		err = in.install.Finish()
	}
	fresh := newMachine(s.cfg.ID, s.cfg.Region)
	if err == nil {
		err = s.cfg.Storage.Tables(fresh.load)
	}
	if err == nil {
		err = fresh.loaded()
	}
	if err != nil {
		s.failed = rhumb.Errorf(rhumb.KindUnavailable, "shard %d: take the snapshot at %d: %w", s.cfg.ID, in.meta.GetIndex(), err)
		return
	}
	fresh.index, fresh.term = in.meta.GetIndex(), in.meta.GetTerm()
	s.m.replace(fresh)
	s.conf, s.confSaved = in.meta.GetConfState(), true
	s.keep = keptEntries{}
	s.flushed.Store(max(s.flushed.Load(), s.m.index)) // what a snapshot holds is committed
	for _, p := range s.m.partitions {
		s.show(p, s.m.index)
	}
	s.changed()
	s.snap.committing, s.snap.taken = false, nil
	held := s.snap.held
	s.snap.held = nil
	s.respond(responses)
	for _, m := range held {
		s.save(m)
	}
}

// replace makes the machine hold what a fresh one does. Who waits for a partition
// that is still there goes on waiting.
func (m *machine) replace(fresh *machine) {
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
	m.index, m.term, m.time, m.block, m.clusterID = fresh.index, fresh.term, fresh.time, fresh.block, fresh.clusterID
	m.partitions, m.groups, m.topics, m.names = fresh.partitions, fresh.groups, fresh.topics, fresh.names
	m.doomed, m.unready, m.deletions, m.byTopic = fresh.doomed, fresh.unready, fresh.deletions, fresh.byTopic
	m.parts, m.settings = fresh.parts, fresh.settings
	m.topicsSeen++ // who follows topics looks at all of them
	m.journal.forget()
	m.offsetCount.Store(fresh.offsetCount.Load())
	m.offsetBytes.Store(fresh.offsetBytes.Load())
}
