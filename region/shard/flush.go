package shard

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// flushState follows what is on the disks of a majority (I12). With durability
// fsync that is what is committed: a replica answers after its flush. Otherwise
// each follower tells its leader what it has flushed.
type flushState struct {
	waiting []flushWaiter
	parts   map[*partition]struct{} // with ends that are not flushed

	// As a follower: the last index up to which this log is the leader's, by the
	// answers given in this term, and what was told of it.
	verified uint64
	told     uint64
	// As a leader: what followers told in this term.
	reports map[uint64]uint64
}

type flushWaiter struct {
	index uint64
	fn    func(error)
}

// newTerm forgets what was true of the log of an older term's leader.
func (f *flushState) newTerm() { f.verified, f.told, f.reports = 0, 0, nil }

func (f *flushState) await(p *partition) {
	if f.parts == nil {
		f.parts = make(map[*partition]struct{})
	}
	f.parts[p] = struct{}{}
}

func (f *flushState) fail(err error) {
	waiting := f.waiting
	f.waiting = nil
	for _, w := range waiting {
		w.fn(err)
	}
}

// flushedIndex gives the last applied entry that a majority has flushed.
func (s *Shard) flushedIndex() uint64 {
	if s.cfg.Synced {
		return s.m.index
	}
	index := s.majority(s.conf.Voters)
	if len(s.conf.VotersOutgoing) > 0 {
		index = min(index, s.majority(s.conf.VotersOutgoing))
	}
	return max(min(index, s.m.index), s.flushed.Load())
}

func (s *Shard) majority(voters []uint64) uint64 {
	indexes := make([]uint64, 0, 8)
	for _, id := range voters {
		if id == s.cfg.Node {
			indexes = append(indexes, s.cfg.Storage.FlushedIndex())
		} else {
			indexes = append(indexes, s.flush.reports[id])
		}
	}
	slices.Sort(indexes)
	if len(indexes) == 0 {
		return 0
	}
	return indexes[(len(indexes)-1)/2]
}

// whenFlushed calls fn when all that is applied now is flushed on a majority, or
// with an error when that can no longer be known here.
func (s *Shard) whenFlushed(fn func(error)) {
	if s.flushedIndex() >= s.m.index {
		fn(nil)
		return
	}
	s.flush.waiting = append(s.flush.waiting, flushWaiter{s.m.index, fn})
}

// advanceFlushed shows and answers what has been flushed since it was last
// called, and tells the leader what of it is flushed here.
func (s *Shard) advanceFlushed() {
	f := &s.flush
	index := s.flushedIndex()
	if index > s.flushed.Load() {
		s.flushed.Store(index)
		for p := range f.parts {
			s.showFlushed(p, index)
		}
		n := 0
		for n < len(f.waiting) && f.waiting[n].index <= index {
			f.waiting[n].fn(nil)
			n++
		}
		f.waiting = append(f.waiting[:0], f.waiting[n:]...)
	}
	if s.cfg.Synced {
		return
	}
	local := min(s.cfg.Storage.FlushedIndex(), f.verified)
	if local > f.told && s.leader != 0 && s.leader != s.cfg.Node {
		f.told = local
		s.post(&Message{Kind: MessageFlushed, To: s.leader, Term: s.term, Index: local})
	}
}

func (s *Shard) showFlushed(p *partition, index uint64) {
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	if p.view.flush(index) {
		p.view.signal()
	}
	if len(p.view.unflushed) == 0 {
		delete(s.flush.parts, p)
	}
}

// keptEntries says how many bytes of entries are kept for late followers.
type keptEntries struct {
	runs  []entryRun
	bytes int64
}

type entryRun struct {
	first, last uint64
	bytes       int64
}

// add counts entries, in runs of about a sixteenth of what is kept.
func (k *keptEntries) add(entries []*raftpb.Entry, keep int64) {
	for _, e := range entries {
		index, size := e.GetIndex(), int64(len(e.GetData()))+64
		for n := len(k.runs); n > 0 && k.runs[n-1].first >= index; n-- { // it replaces them
			k.bytes -= k.runs[n-1].bytes
			k.runs = k.runs[:n-1]
		}
		if n := len(k.runs); n > 0 && k.runs[n-1].bytes < keep/16 {
			k.runs[n-1].last = index
			k.runs[n-1].bytes += size
		} else {
			k.runs = append(k.runs, entryRun{index, index, size})
		}
		k.bytes += size
	}
}

// compact lets go of entries that no follower needs: in a group of one all that
// are applied, else the oldest beyond the bytes to keep.
func (s *Shard) compact() {
	if s.single {
		s.keep = keptEntries{}
		s.cfg.Storage.Compact(s.m.index)
		return
	}
	limit, until := s.snap.hold(s.m.index), uint64(0)
	k := &s.keep
	for len(k.runs) > 1 && k.bytes > s.cfg.Keep && k.runs[0].last <= limit {
		until = k.runs[0].last
		k.bytes -= k.runs[0].bytes
		k.runs = append(k.runs[:0], k.runs[1:]...)
	}
	if until > 0 {
		s.cfg.Storage.Compact(until)
	}
}
