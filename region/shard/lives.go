package shard

import (
	"context"
	"math"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// PastLife is a life that a partition's log had before the one that it has: an
// operator closed it, because a destination's copy of it and this log differ
// from some offset on. The records behind its last offset belong to a later
// life; they keep the place that they have.
//
// Invariants: From-1 <= Last < End, or Last < From-1 once a later closing left
// nothing of it; Ends only grow from one past life to the next.
type PastLife struct {
	Life rhumb.Life
	From rhumb.Offset // first offset that it could name
	Last rhumb.Offset // last offset that it names, not inside of an own batch
	// Chain is that of the log's own records at Last.
	Chain uint64
	// End is the log's end when it was closed: own batches below it are stored
	// under this life, or an earlier one.
	End rhumb.Offset
	At  int64 // when, ms since 1970
}

// Owns reports whether a life is, or was, that of the partition's own log.
func (st *PartitionState) Owns(life rhumb.Life) bool { return owns(st.Life, st.Past, life) }

func owns(current rhumb.Life, past []PastLife, life rhumb.Life) bool {
	if life == current {
		return true
	}
	for i := range past {
		if past[i].Life == life {
			return true
		}
	}
	return false
}

// Span gives the own offsets that a life of the log names: from, inclusive, to
// to, exclusive. They are empty for a life that is not the log's own.
func (st *PartitionState) Span(life rhumb.Life) (from, to rhumb.Offset) {
	for i := range st.Past {
		if p := &st.Past[i]; p.Life == life {
			return p.From, max(p.From, p.Last+1)
		}
	}
	if life != st.Life {
		return 0, 0
	}
	if n := len(st.Past); n > 0 {
		from = st.Past[n-1].Last + 1
	}
	return from, math.MaxInt64
}

// lifeAt gives the life that names an own record at an offset.
func (st *PartitionState) lifeAt(o rhumb.Offset) rhumb.Life {
	for i := range st.Past {
		if o <= st.Past[i].Last {
			return st.Past[i].Life
		}
	}
	return st.Life
}

// rename gives own batches the life that names them now. A batch is stored under
// the life that the log had when it came.
func (s *Shard) rename(st *PartitionState, batches []Stored) {
	for i := range batches {
		e := &batches[i].Envelope
		if e.Region != s.cfg.Region {
			continue
		}
		for k := range st.Past {
			if st.Past[k].Life == e.Life && batches[i].Base < st.Past[k].End {
				e.Life = st.lifeAt(batches[i].Base)
				break
			}
		}
	}
}

// Read gives whole batches in the order of the log, from storage.
func (s *Shard) Read(st *PartitionState, q Query) ([]Stored, error) {
	found, err := s.cfg.Storage.Read(q)
	s.rename(st, found)
	return found, err
}

// ReadOrigin gives whole batches of one origin life in its order. Own records have
// the same offset here and at their origin, so a life of this log is a range of it;
// the zero life stands for all of them.
func (s *Shard) ReadOrigin(st *PartitionState, q OriginQuery) ([]Stored, error) {
	all := q.Region == s.cfg.Region && q.Life.IsZero()
	if all && len(st.Past) == 0 {
		q.Life = st.Life
	}
	if len(st.Past) == 0 || q.Region != s.cfg.Region || !all && !st.Owns(q.Life) {
		return s.cfg.Storage.ReadOrigin(q)
	}
	from, to := rhumb.Offset(0), q.Limit
	if !all {
		from, to = st.Span(q.Life)
		to = min(to, q.Limit)
	}
	var out []Stored
	size, begin := 0, rhumb.Offset(0)
	for i := 0; i <= len(st.Past) && (len(out) == 0 || size < q.MaxBytes); i++ {
		label, end := st.Life, rhumb.Offset(math.MaxInt64)
		if i < len(st.Past) {
			label, end = st.Past[i].Life, st.Past[i].End
		}
		piece := q
		piece.Life, piece.From, piece.Limit, piece.MaxBytes = label, max(q.From, from, begin), min(to, end), q.MaxBytes-size
		begin = end
		if piece.From >= piece.Limit {
			continue
		}
		found, err := s.cfg.Storage.ReadOrigin(piece)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			if b.Base < from {
				continue
			}
			size += len(b.Batch)
			if len(out) > 0 && size > q.MaxBytes {
				break
			}
			b.Envelope.Life = st.lifeAt(b.Base)
			out = append(out, b)
		}
	}
	return out, nil
}

// Renamed reports whether any log of the shard had another life before.
func (s *Shard) Renamed() bool { return s.renamed.Load() }

// Lives gives the life of a partition's log, and those that it had before; false
// if the partition is not there.
func (s *Shard) Lives(id rhumb.PartitionID) (rhumb.Life, []PastLife, bool) {
	p := s.partition(id)
	if p == nil {
		return rhumb.Life{}, nil, false
	}
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	return p.view.state.Life, p.view.state.Past, !p.view.state.Life.IsZero()
}

// LifeChange asks for a new life of a partition's log.
type LifeChange struct {
	Old   rhumb.Life   // the log's life as the operator saw it
	Last  rhumb.Offset // the last offset that the old life keeps, NoOffset for none
	Chain uint64       // of the own records at Last
}

// NewLife closes the life of a partition's log at an offset, and gives what lies
// behind it, and all that is to come, a new one. Asked again, it changes nothing
// and gives what is there. Errors are of kind fenced if the log has another life
// by now, out of range past its end, invalid inside of an own batch.
func (s *Shard) NewLife(ctx context.Context, id rhumb.PartitionID, c LifeChange) (PastLife, rhumb.Life, error) {
	if st, ok := s.State(id); ok && c.Last >= st.LogStart && c.Last < st.End {
		// Only own batches count: a destination's watermark may stand where a skip over
		// foreign records ended, and a log that was restored has others there.
		found, err := s.ReadOrigin(&st, OriginQuery{Partition: id, Region: s.cfg.Region, From: c.Last, Limit: st.End, MaxBytes: 1})
		if err != nil {
			return PastLife{}, rhumb.Life{}, err
		}
		if len(found) > 0 && found[0].Base <= c.Last && found[0].Last() != c.Last {
			return PastLife{}, rhumb.Life{}, rhumb.Errorf(rhumb.KindInvalid, "shard %d, partition %d: offset %d lies inside of a batch that ends at %d", s.cfg.ID, id, c.Last, found[0].Last())
		}
	}
	v, err := s.control(ctx, &newLifeCommand{id, c.Old, rhumb.NewLife(), c.Last, c.Chain})
	if err != nil {
		return PastLife{}, rhumb.Life{}, err
	}
	r := v.(lifeResult)
	return r.past, r.life, nil
}

// lifeResult is what applying a newLifeCommand gives.
type lifeResult struct {
	past PastLife
	life rhumb.Life
}

// applyNewLife closes the log's life and opens another one. It is decided by the
// life that the log has: the second of two equal commands finds it changed.
func (m *machine) applyNewLife(ctx entry, c *newLifeCommand) result {
	p := m.partitions[c.partition]
	switch {
	case p == nil:
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", m.shard, c.partition)}
	case p.life != c.old:
		if n := len(p.past); n > 0 && p.past[n-1].Life == c.old {
			return result{value: lifeResult{p.past[n-1], p.life}}
		}
		return result{err: rhumb.Errorf(rhumb.KindFenced, "shard %d, partition %d: the log's life is %s, not %s", m.shard, p.id, p.life, c.old)}
	case c.last < rhumb.NoOffset || c.last >= p.end:
		return result{err: rhumb.Errorf(rhumb.KindOutOfRange, "shard %d, partition %d: the life cannot end at %d, the log ends before %d", m.shard, p.id, c.last, p.end)}
	case c.life.IsZero() || owns(p.life, p.past, c.life) || p.marks[originKey{m.number, c.life}] != nil:
		return result{err: rhumb.Errorf(rhumb.KindInvalid, "shard %d, partition %d: life %s was used before", m.shard, p.id, c.life)}
	}
	past := make([]PastLife, 0, len(p.past)+1) // readers share the old one
	from := rhumb.Offset(0)
	for _, old := range p.past {
		from = old.Last + 1
		if old.Last > c.last {
			old.Last, old.Chain = c.last, c.chain
		}
		past = append(past, old)
	}
	past = append(past, PastLife{Life: p.life, From: from, Last: c.last, Chain: c.chain, End: p.end, At: ctx.time})
	for i := range past {
		m.set(pastLifeKey(p.id, uint64(i)), encodePastLife(past[i]))
	}
	p.past, p.life = past, c.life
	m.set(partitionKey(tablePartition, p.id), encodePartition(p))
	m.touch(p)
	m.topicsSeen++ // who follows lives of logs follows topics
	return result{value: lifeResult{past[len(past)-1], p.life}}
}

type newLifeCommand struct {
	partition rhumb.PartitionID
	old, life rhumb.Life
	last      rhumb.Offset
	chain     uint64
}

func (c *newLifeCommand) kind() kind { return kindNewLife }

func (c *newLifeCommand) append(b []byte) []byte {
	b = putUint(b, uint64(c.partition))
	b = append(b, c.old[:]...)
	b = append(b, c.life[:]...)
	b = putInt(b, int64(c.last))
	return putUint(b, c.chain)
}

func decodeNewLife(body []byte) (*newLifeCommand, error) {
	r := reader{b: body}
	c := &newLifeCommand{rhumb.PartitionID(r.uint()), r.life(), r.life(), rhumb.Offset(r.int()), r.uint()}
	return c, r.err("new life")
}

func encodePastLife(l PastLife) []byte {
	b := append(make([]byte, 0, 64), rowVersion)
	b = append(b, l.Life[:]...)
	b = putInt(b, int64(l.From))
	b = putInt(b, int64(l.Last))
	b = putUint(b, l.Chain)
	b = putInt(b, int64(l.End))
	return putInt(b, l.At)
}

func decodePastLife(value []byte) (PastLife, error) {
	r, err := rowBody(value)
	if err != nil {
		return PastLife{}, err
	}
	l := PastLife{r.life(), rhumb.Offset(r.int()), rhumb.Offset(r.int()), r.uint(), rhumb.Offset(r.int()), r.int()}
	if !r.bad && (l.Life.IsZero() || l.From < 0 || l.Last < rhumb.NoOffset || l.Last >= l.End) {
		return l, rhumb.Errorf(rhumb.KindCorrupt, "shard: past life %s from %d to %d, closed at %d", l.Life, l.From, l.Last, l.End)
	}
	return l, r.err("past life row")
}
