package replicator

import (
	"context"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// sourceLog reads the flow's partition for its sender. It is used by one
// goroutine. Own records have the same offset in the log as at their origin.
type sourceLog struct {
	flow    *flow
	started bool
	start   dedup.ChainPoint // the edge's
	floor   dedup.ChainPoint // for the log start that floorOf names
	floorOf rhumb.Offset
	open    bool             // see session.Source.FloorOpen
	agreed  dedup.ChainPoint // up to here the destination has it under earlier lives
	out     rhumb.Offset     // see originLog.progress
	mean    float64          // see originLog.bytesPerOffset
}

func (l *sourceLog) progress() rhumb.Offset { return l.out }

func (l *sourceLog) bytesPerOffset() float64 { return l.mean }

// snapshot gives what the sender needs to know of the log now.
func (l *sourceLog) snapshot(ctx context.Context) (session.Source, error) {
	st, err := l.state()
	if err != nil {
		return session.Source{}, err
	}
	l.out, l.mean = lastOut(&st), meanBytes(&st)
	if !l.started {
		if err := l.fixStart(ctx, &st); err != nil {
			return session.Source{}, err
		}
	}
	if st.LogStart > l.floorOf {
		if l.floor, l.open, err = l.floorAt(&st); err != nil {
			return session.Source{}, err
		}
		l.floorOf = st.LogStart
	}
	if l.floorOf == 0 {
		l.floor, l.open = dedup.ChainPoint{Offset: rhumb.NoOffset}, false
	}
	src := session.Source{Start: l.start, Floor: l.floor, FloorReason: rhumb.ReasonRetention, FloorOpen: l.open,
		OwnLast: st.OwnLast, Head: st.Flushed, End: st.End, Compacted: st.Compacted}
	for _, m := range st.Starts {
		src.FloorReason = m.Reason
		if m.Offset < src.Floor.Offset {
			src.Floors = append(src.Floors, session.Floor{ChainPoint: m.ChainPoint, Reason: m.Reason})
		}
	}
	if past := l.flow.source.closed; past != nil {
		end := dedup.ChainPoint{Offset: past.Last, Chain: past.Chain}
		src.Closed, src.Last = true, past.Last
		src.OwnLast, src.Head = min(src.OwnLast, past.Last), min(src.Head, past.Last+1)
		if src.Start.Offset > past.Last {
			src.Start = end
		}
		if src.Floor.Offset > past.Last {
			src.Floor, src.FloorOpen = end, false
		}
	}
	return src, nil
}

func (l *sourceLog) state() (partitionState, error) {
	s := l.flow.source
	st, ok := l.flow.link.m.cfg.Region.State(s.ref)
	switch {
	case !ok || !st.Owns(s.life) || (st.Life == s.life) != (s.closed == nil):
		return st, errReplaced
	case !st.Leading:
		return st, rhumb.Errorf(rhumb.KindNotLeader, "the partition has no leader here")
	}
	return st, nil
}

// fixStart asks where the edge starts.
func (l *sourceLog) fixStart(ctx context.Context, st *partitionState) error {
	first, err := l.flow.link.m.cfg.Region.SetEdgeStart(ctx, l.flow.source.ref, l.flow.link.number, l.flow.latest)
	if err != nil {
		return err
	}
	if s := l.flow.source; s.closed != nil || len(s.earlier) > 0 {
		first = max(first, s.from, l.agreed.Offset+1)
	}
	before := first - 1
	if before == rhumb.NoOffset { // most logs: there is nothing to be read
		l.start, l.started = dedup.ChainPoint{Offset: rhumb.NoOffset}, true
		return nil
	}
	b, ok, err := l.firstFrom(first, st.End)
	if err != nil {
		return err
	}
	// A start that retention has passed has a chain that nobody knows any more:
	// the floor, which comes right after it, tells it again.
	chain := l.chainAt(st, first-1).Chain
	if ok && b.First < first {
		// A batch is never split: one that the start lies in, because records were
		// deleted up to its middle, is carried whole.
		first, chain = b.First, dedup.ChainBefore(b)
	}
	l.start, l.started = dedup.ChainPoint{Offset: first - 1, Chain: chain}, true
	return nil
}

// floorAt gives the last own offset that is gone, on a batch border, with the
// chain before the first batch that is still there. That is not the chain at the
// floor if compaction took batches between them: then open is true.
func (l *sourceLog) floorAt(st *partitionState) (floor dedup.ChainPoint, open bool, err error) {
	b, ok, err := l.firstFrom(st.LogStart, st.End)
	switch {
	case err != nil:
		return dedup.ChainPoint{}, false, err
	case !ok && st.OwnLast >= st.Flushed:
		return dedup.ChainPoint{}, false, rhumb.Errorf(rhumb.KindUnavailable, "what is left of the log is not flushed yet")
	case !ok:
		return dedup.ChainPoint{Offset: st.LogStart - 1, Chain: st.OwnChain}, false, nil
	case b.Prev >= st.LogStart:
		return dedup.ChainPoint{Offset: st.LogStart - 1}, true, nil
	}
	return dedup.ChainPoint{Offset: min(st.LogStart, b.First) - 1, Chain: dedup.ChainBefore(b)}, false, nil
}

// chainAt gives the chain of the last own batch that ends at or before an
// offset, whatever life names it. It is not known below the floor, past the end, and
// where compaction took the batches around it.
func (l *sourceLog) chainAt(st *partitionState, at rhumb.Offset) session.ChainAnswer {
	switch {
	case at == rhumb.NoOffset:
		return session.ChainAnswer{Known: true}
	case at >= st.End || at < st.LogStart-1:
		return session.ChainAnswer{}
	case at >= st.OwnLast:
		return session.ChainAnswer{Chain: st.OwnChain, Known: true}
	}
	b, ok, err := l.firstFrom(at, st.End)
	switch {
	case err != nil || !ok:
		return session.ChainAnswer{}
	case b.Last == at:
		return session.ChainAnswer{Chain: b.Chain, Known: true}
	case b.First > at && b.Prev > at:
		return session.ChainAnswer{}
	case b.First > at:
		return session.ChainAnswer{Chain: dedup.ChainBefore(b), Known: true}
	}
	return session.ChainAnswer{Known: true, Inside: true}
}

// borders lists ends of own batches between two offsets: the first one, and others
// about evenly spaced.
func (l *sourceLog) borders(from, to rhumb.Offset) (ends []rhumb.Offset, err error) {
	st, err := l.state()
	if err != nil {
		return nil, err
	}
	next := max(from+1, st.LogStart)
	for i := range rhumb.Offset(wire.MaxProbes) {
		b, ok, err := l.firstFrom(max(next, from+1+(to-from-1)/wire.MaxProbes*i), min(to, st.End))
		if err != nil {
			return nil, err
		}
		if !ok || b.Last >= to {
			break
		}
		ends = append(ends, b.Last)
		next = b.Last + 1
	}
	return ends, nil
}

// firstFrom reads the first own batch that ends at or after an offset, whatever
// life names it.
func (l *sourceLog) firstFrom(at, limit rhumb.Offset) (dedup.OriginBatch, bool, error) {
	found, err := l.readLife(rhumb.Life{}, at, limit, 1)
	if err != nil || len(found) == 0 {
		return dedup.OriginBatch{}, false, err
	}
	b, err := originBatch(&found[0])
	return b, err == nil, err
}

func (l *sourceLog) read(from, limit rhumb.Offset, maxBytes int) ([]stored, error) {
	return l.readLife(l.flow.source.life, from, limit, maxBytes)
}

func (l *sourceLog) readLife(life rhumb.Life, from, limit rhumb.Offset, maxBytes int) ([]stored, error) {
	s, cfg := l.flow.source, &l.flow.link.m.cfg
	return cfg.Region.ReadOrigin(s.ref, originQuery{Partition: s.ref.ID, Region: cfg.Self.Number, Life: life,
		From: from, Limit: limit, MaxBytes: maxBytes})
}

// chains answers a check of the sender.
func (l *sourceLog) chains(points []dedup.ChainPoint) ([]session.ChainAnswer, error) {
	st, err := l.state()
	if err != nil {
		return nil, err
	}
	answers := make([]session.ChainAnswer, len(points))
	for i, p := range points {
		answers[i] = l.chainAt(&st, p.Offset)
	}
	return answers, nil
}

// messages answers a read of the sender.
func (l *sourceLog) messages(ctx context.Context, r session.Read) session.ReadResult {
	result := session.ReadResult{Gen: r.Gen}
	found, err := l.read(r.After+1, r.Limit, r.MaxBytes)
	if err == nil {
		result.Source, err = l.snapshot(ctx)
	}
	if err != nil {
		result.Err = err
		return result
	}
	result.Messages = make([]session.Message, 0, len(found))
	for i := range found {
		// A batch that began before is no answer: where it lies, the logs differ.
		if e := &found[i].Envelope; e.First > r.After && e.First < r.Limit {
			result.Messages = append(result.Messages, session.Message{Envelope: *e, Batch: found[i].Batch})
		}
	}
	n := len(result.Messages)
	result.Complete = n == 0 || result.Messages[n-1].Envelope.Last >= result.Source.OwnLast
	if src := &result.Source; n == 0 && src.OwnLast > r.After && r.After+1 < src.Compacted {
		// Compaction leaves the last batch of a log's own, which is flushed: that it
		// was not found means that it lies behind the life's end, or is not known to
		// be flushed yet after a restart.
		if result.Complete = src.Closed && r.Limit > src.Last; result.Complete {
			result.Tail = &dedup.ChainPoint{Offset: src.Last, Chain: l.flow.source.closed.Chain}
		}
	}
	return result
}

func originBatch(s *stored) (dedup.OriginBatch, error) {
	h, err := codec.ParseBatch(s.Batch)
	return dedup.OriginBatchOf(&s.Envelope, h), err
}
