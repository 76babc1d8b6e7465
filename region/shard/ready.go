package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ready does what Raft asks for until it asks for nothing more.
func (s *Shard) ready() error {
	for s.failed == nil && s.raft.HasReady() {
		rd := s.raft.Ready()
		if !raft.IsEmptyHardState(rd.HardState) && rd.GetTerm() != s.term {
			s.term = rd.GetTerm()
			s.epoch.Store(s.term)
			s.flush.newTerm()
			s.stepDown() // whatever it led, it led in an older term
		}
		if rd.SoftState != nil {
			s.changeRole(rd.SoftState)
		}
		s.fill(rd.Entries)
		for _, st := range rd.ReadStates {
			s.reads.confirm(binary.LittleEndian.Uint64(st.RequestCtx), st.Index)
		}
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				s.save(m)
			case raft.LocalApplyThread:
				if err := s.applyEntries(m.GetEntries()); err != nil {
					return err
				}
				s.respond(m.GetResponses())
			default:
				s.send(m)
			}
		}
		s.reads.serve(s.m.index)
	}
	return s.failed
}

// fill puts the data of proposals into the entries that stand for them. Raft
// copies what it is given, so it was given tags; entries are shared by pointer
// with the messages to followers, which have not left yet.
func (s *Shard) fill(entries []*raftpb.Entry) {
	l := &s.lead
	for _, e := range entries {
		if len(l.unplaced) == 0 || len(e.GetData()) != tagSize || e.GetType() != raftpb.EntryNormal {
			continue
		}
		p := l.unplaced[0]
		if binary.LittleEndian.Uint64(e.Data) != p.tag {
			panic(fmt.Sprintf("shard %d: entry %d holds another proposal's tag", s.cfg.ID, e.GetIndex()))
		}
		e.Data, p.index = p.data, e.GetIndex()
		p.data = nil
		l.unplaced = l.unplaced[1:]
		if p.live {
			l.inflight.push(p)
		}
	}
}

func (s *Shard) changeRole(st *raft.SoftState) {
	old := s.role
	s.role, s.leader = st.RaftState, st.Lead
	if old == raft.StateLeader && s.role != raft.StateLeader {
		s.stepDown()
	}
	if s.role != old && (s.role == raft.StateLeader || old == raft.StateLeader) {
		level := slog.LevelInfo
		if s.single {
			level = slog.LevelDebug // nobody else could lead
		}
		s.log.Log(context.Background(), level, "shard changed its role", "term", s.term, "role", s.role.String(), "leader", s.leader)
	}
}

// stepDown ends what this node did as a leader: what is in flight may or may not
// be committed by the next one, and the speculative copy goes.
func (s *Shard) stepDown() {
	if s.leading.Swap(false) {
		s.wakeAll()
		s.changed()
	}
	s.abandon(s.notLeader())
	s.reads.fail(s.notLeader())
	s.flush.fail(s.notLeader())
	s.endOffers()
}

func (s *Shard) notLeader() error {
	return rhumb.Errorf(rhumb.KindNotLeader, "shard %d: node %d does not lead in term %d, node %d may", s.cfg.ID, s.cfg.Node, s.term, s.leader)
}

// save gives the storage what Raft wants written. A commit index alone is not
// worth a frame: it is learned again after a restart.
func (s *Shard) save(m *raftpb.Message) {
	if s.snap.committing {
		s.snap.held = append(s.snap.held, m)
		return
	}
	var hs *raftpb.HardState
	mustSync := len(m.GetEntries()) > 0
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		hs = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		now := hardState{m.GetTerm(), m.GetVote()}
		mustSync = mustSync || now != s.hard
		s.hard = now
	}
	responses := m.GetResponses()
	if snap := m.GetSnapshot(); !raft.IsEmptySnap(snap) {
		s.install(snap.GetMetadata(), hs, responses)
		return
	}
	if !mustSync && len(responses) == 0 {
		return
	}
	s.keep.add(m.GetEntries(), s.cfg.Keep)
	s.cfg.Storage.Save(hs, m.GetEntries(), mustSync, func(err error) { s.onSaved(responses, err) })
}

// onSaved is called by the storage, from any goroutine.
func (s *Shard) onSaved(responses []*raftpb.Message, err error) {
	if err == nil && len(responses) == 0 {
		return
	}
	s.mu.Lock()
	s.saves = append(s.saves, saved{responses, err})
	s.mu.Unlock()
	s.signal()
}

// respond delivers what waited for a write.
func (s *Shard) respond(responses []*raftpb.Message) {
	for _, m := range responses {
		if m.GetTo() != s.cfg.Node {
			s.send(m)
			continue
		}
		if err := s.raft.Step(m); err != nil {
			s.log.Debug("raft refused a message of its own", "err", err)
		}
	}
}

// applyEntries applies committed entries as one update and answers whoever
// proposed them: until then they are in l.done, where abandon finds them.
func (s *Shard) applyEntries(entries []*raftpb.Entry) error {
	l := &s.lead
	results := s.results[:0]
	firstOfTerm, wrong := false, error(nil)
	for _, e := range entries {
		start := len(results)
		newTerm := e.GetTerm() != s.m.term
		if newTerm { // an update is of one term, so that terms can be looked up
			if err := s.store(); err != nil {
				return err
			}
		}
		if e.GetType() != raftpb.EntryNormal {
			if err := s.applyConf(e); err != nil {
				return err
			}
			continue
		}
		var err error
		if results, err = s.m.apply(e, results); err != nil {
			return err
		}
		if newTerm { // the first entry of a term alone, so that its place is exact
			if err = s.store(); err != nil {
				return err
			}
		}
		firstOfTerm = firstOfTerm || e.GetTerm() == s.term
		for _, r := range results[start:] {
			if r.refused && wrong == nil {
				wrong = r.err
			}
		}
		if p := l.inflight.head(); p != nil && p.index == e.GetIndex() {
			l.done = append(l.done, completed{l.inflight.pop(), start})
		}
	}
	if err := s.store(); err != nil {
		return err
	}
	if wrong != nil && s.leading.Load() {
		s.log.Warn("leader's copy was wrong and is dropped", "term", s.term, "err", wrong)
		s.dropCopy(wrong)
	}
	for _, c := range l.done {
		s.complete(c.p, results[c.start:])
	}
	clear(results)
	clear(l.done)
	s.results, l.done = results, l.done[:0]
	if firstOfTerm && s.role == raft.StateLeader && !s.leading.Swap(true) {
		s.wakeAll()
		s.changed()
	}
	s.compact()
	return nil
}

// store gives the storage what was applied since it was last called, and shows it.
func (s *Shard) store() error {
	if at, _ := s.cfg.Storage.Applied(); at == s.m.index {
		return nil
	}
	u := s.m.flush()
	if !s.confSaved {
		u.Conf = s.conf
	}
	if err := s.cfg.Storage.Apply(u); err != nil {
		return rhumb.Errorf(rhumb.KindUnavailable, "shard %d: apply entries to %d: %w", s.cfg.ID, u.Index, err)
	}
	s.confSaved = true
	s.m.applied()
	s.published()
	return nil
}

// published shows what the storage has taken.
func (s *Shard) published() {
	flushed := s.flushedIndex()
	for i, p := range s.m.touched {
		if s.m.partitions[p.id] != p {
			p.depart()
		} else {
			s.show(p, flushed)
			if flushed < s.m.index {
				s.flush.await(p)
			}
		}
		s.m.touched[i] = nil
	}
	if s.m.topicsSeen != s.seen {
		s.seen = s.m.topicsSeen
		s.changed()
	}
}

func (s *Shard) changed() {
	if s.cfg.Changed != nil {
		s.cfg.Changed()
	}
}

func (s *Shard) applyConf(e *raftpb.Entry) error {
	s.m.index, s.m.term = e.GetIndex(), e.GetTerm()
	cc, err := confChange(e)
	if err != nil {
		return fmt.Errorf("shard %d, entry %d: %w", s.cfg.ID, e.GetIndex(), err)
	}
	s.conf, s.confSaved = s.raft.ApplyConfChange(cc), false
	return nil
}
