package replicator

import (
	"context"
	"math"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// originLog is what a sender's flow reads: this region's own log, or its copy of
// another region's life. It is used by one goroutine.
type originLog interface {
	snapshot(context.Context) (session.Source, error)
	messages(context.Context, session.Read) session.ReadResult
	chains([]dedup.ChainPoint) ([]session.ChainAnswer, error)
	borders(from, to rhumb.Offset) ([]rhumb.Offset, error)
	// progress grows whenever the partition has something new to send, of any life.
	progress() rhumb.Offset
	// bytesPerOffset is the mean of what is kept.
	bytesPerOffset() float64
}

// relayLog reads this region's copy of another region's life. Its records have other
// offsets here than at their origin, and some may be missing: what links brought
// as gaps, what the log start has passed, what compaction took. The copy vouches
// for what it holds, by each batch's own prev and chain, and for nothing else.
type relayLog struct {
	flow    *flow
	started bool
	start   dedup.ChainPoint // the edge's, at the origin
	floor   dedup.ChainPoint // for the log start that floorOf names
	floorOf rhumb.Offset
	floored bool // floor was found for a batch that is there
	gaps    []session.Gap
	known   uint64 // gap records of the partition that gaps was made from
	out     rhumb.Offset
	mean    float64

	// The watermark that may leave, and a later one that waits until all that was
	// in the log when it was seen is flushed.
	mark    dedup.ChainPoint
	waiting dedup.ChainPoint
	end     rhumb.Offset // of the log, when waiting was seen
}

func newRelayLog(f *flow) *relayLog {
	none := dedup.ChainPoint{Offset: rhumb.NoOffset}
	return &relayLog{flow: f, start: none, floor: none, floorOf: -1, mark: none, waiting: none, out: rhumb.NoOffset}
}

func (l *relayLog) progress() rhumb.Offset { return l.out }

func (l *relayLog) bytesPerOffset() float64 { return l.mean }

// state gives the partition's state and the copy's watermark.
func (l *relayLog) state() (partitionState, dedup.Watermark, error) {
	s := l.flow.source
	st, ok := l.flow.link.m.cfg.Region.State(s.ref)
	switch {
	case !ok || st.Owns(s.life):
		return st, dedup.Watermark{}, errReplaced
	case !st.Leading:
		return st, dedup.Watermark{}, rhumb.Errorf(rhumb.KindNotLeader, "the partition has no leader here")
	}
	w, ok := markOf(&st, s.origin, s.life)
	if !ok {
		return st, w, errReplaced
	}
	return st, w, nil
}

func markOf(st *partitionState, origin rhumb.RegionNumber, life rhumb.Life) (dedup.Watermark, bool) {
	for i := range st.Watermarks {
		if w := &st.Watermarks[i]; w.Life == life && w.Region == origin {
			return *w, true
		}
	}
	return dedup.Watermark{}, false
}

func (l *relayLog) snapshot(ctx context.Context) (session.Source, error) {
	st, w, err := l.state()
	if err != nil {
		return session.Source{}, err
	}
	l.out, l.mean = lastOut(&st), meanBytes(&st)
	l.advance(&st, w)
	if !l.started {
		if err := l.fixStart(ctx, &st, w); err != nil {
			return session.Source{}, err
		}
	}
	if !l.floored || st.LogStart != l.floorOf {
		if err := l.findFloor(&st, w); err != nil {
			return session.Source{}, err
		}
	}
	if st.Gaps != l.known {
		l.gaps, l.known = l.gapsOf(), st.Gaps
	}
	src := session.Source{Relay: true, Mark: l.mark, Gaps: l.gaps, Left: w.Floor, Start: l.start, Floor: l.floor,
		OwnLast: l.mark.Offset, Head: l.mark.Offset + 1, End: w.Offset + 1}
	if n := len(st.Starts); n > 0 {
		src.FloorReason = st.Starts[n-1].Reason
	} else if st.LogStart > 0 {
		src.FloorReason = rhumb.ReasonRetention
	}
	return src, nil
}

// advance lets the watermark leave as far as what it rests on is flushed on a
// majority: all that was in the log when the watermark was seen.
func (l *relayLog) advance(st *partitionState, w dedup.Watermark) {
	if l.waiting.Offset > l.mark.Offset && st.Flushed >= l.end {
		l.mark = l.waiting
	}
	if w.Offset <= l.mark.Offset {
		return
	}
	now := dedup.ChainPoint{Offset: w.Offset, Chain: w.Chain}
	switch {
	case st.Flushed >= st.End:
		l.mark = now
	case l.waiting.Offset <= l.mark.Offset:
		l.waiting, l.end = now, st.End
	}
}

// fixStart finds where the edge starts in the life: it starts at one place of this
// region's log, for all that is in it. What came before is not carried.
func (l *relayLog) fixStart(ctx context.Context, st *partitionState, w dedup.Watermark) error {
	s := l.flow.source
	local, err := l.flow.link.m.cfg.Region.SetEdgeStart(ctx, s.ref, l.flow.link.number, l.flow.latest)
	if err != nil {
		return err
	}
	if local <= st.LogStart {
		l.started = true
		return nil
	}
	lo, hi := rhumb.Offset(0), w.Offset+1 // the first batch at or behind local ends at lo at least
	for lo < hi {
		mid := lo + (hi-lo)/2
		found, err := l.read(mid, math.MaxInt64, 1)
		if err != nil {
			return err
		}
		if len(found) > 0 && found[0].Base < local {
			lo = found[0].Envelope.Last + 1
		} else {
			hi = mid
		}
	}
	b, ok, err := l.firstFrom(lo)
	switch {
	case err != nil:
		return err
	case ok:
		l.start = dedup.ChainPoint{Offset: b.Prev, Chain: dedup.ChainBefore(b)}
	default:
		l.start = l.mark
	}
	l.started = ok // while all of it came before, more of that may be on its way to the disk
	return nil
}

// findFloor finds where what is left of the life begins.
func (l *relayLog) findFloor(st *partitionState, w dedup.Watermark) error {
	b, ok, err := l.firstFrom(0)
	switch {
	case err != nil:
		return err
	case ok:
		l.floor = dedup.ChainPoint{Offset: b.Prev, Chain: dedup.ChainBefore(b)}
	default:
		l.floor = l.mark // nothing of it is left, or there never was anything
	}
	l.floored, l.floorOf = ok, st.LogStart
	return nil
}

// gapsOf lists what links said of the life that will never come, rising.
func (l *relayLog) gapsOf() (gaps []session.Gap) {
	s := l.flow.source
	for _, g := range l.flow.link.m.cfg.Region.Gaps(s.ref) {
		if g.Life == s.life && g.Region == s.origin {
			gaps = append(gaps, session.Gap{From: g.From, To: g.To, Reason: g.Reason, By: g.By})
		}
	}
	return gaps
}

func (l *relayLog) read(from, limit rhumb.Offset, maxBytes int) ([]stored, error) {
	s := l.flow.source
	return l.flow.link.m.cfg.Region.ReadOrigin(s.ref, originQuery{Partition: s.ref.ID, Region: s.origin, Life: s.life,
		From: from, Limit: limit, MaxBytes: maxBytes})
}

// firstFrom reads the first batch of the life that ends at or after an offset.
func (l *relayLog) firstFrom(at rhumb.Offset) (dedup.OriginBatch, bool, error) {
	found, err := l.read(at, math.MaxInt64, 1)
	if err != nil || len(found) == 0 {
		return dedup.OriginBatch{}, false, err
	}
	b, err := originBatch(&found[0])
	return b, err == nil, err
}

// messages answers a read of the sender.
func (l *relayLog) messages(ctx context.Context, r session.Read) session.ReadResult {
	result := session.ReadResult{Gen: r.Gen}
	found, err := l.read(r.After+1, math.MaxInt64, r.MaxBytes)
	if err == nil {
		result.Source, err = l.snapshot(ctx)
	}
	if err != nil {
		result.Err = err
		return result
	}
	result.Messages = make([]session.Message, 0, len(found))
	for i := range found {
		e := &found[i].Envelope
		if e.First <= r.After {
			result.Err = rhumb.Errorf(rhumb.KindDiverged, "the copy has one batch from %d to %d, the destination a border at %d", e.First, e.Last, r.After)
			return result
		}
		if e.First < r.Limit {
			result.Messages = append(result.Messages, session.Message{Envelope: *e, Batch: found[i].Batch})
		}
	}
	n := len(result.Messages)
	result.Complete = n < len(found) || n == 0 || result.Messages[n-1].Envelope.Last >= r.Limit-1
	return result
}

// chains answers a check of the sender.
func (l *relayLog) chains(points []dedup.ChainPoint) ([]session.ChainAnswer, error) {
	_, w, err := l.state()
	if err != nil {
		return nil, err
	}
	answers := make([]session.ChainAnswer, len(points))
	for i, p := range points {
		if answers[i], err = l.chainAt(w, p.Offset); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// chainAt gives the chain of the life at an offset, as far as what is here tells it.
func (l *relayLog) chainAt(w dedup.Watermark, at rhumb.Offset) (session.ChainAnswer, error) {
	switch {
	case at == rhumb.NoOffset:
		return session.ChainAnswer{Known: true}, nil
	case at == w.Offset:
		return session.ChainAnswer{Chain: w.Chain, Known: w.Chain != 0}, nil
	case at > w.Offset:
		return session.ChainAnswer{}, nil
	}
	b, ok, err := l.firstFrom(at)
	switch {
	case err != nil || !ok || b.First > at && b.Prev > at:
		return session.ChainAnswer{}, err
	case b.Last == at:
		return session.ChainAnswer{Chain: b.Chain, Known: true}, nil
	case b.First > at:
		return session.ChainAnswer{Chain: dedup.ChainBefore(b), Known: true}, nil
	}
	return session.ChainAnswer{Known: true, Inside: true}, nil
}

// borders lists ends of batches of the life between two offsets, about evenly spaced,
// the first one among them.
func (l *relayLog) borders(from, to rhumb.Offset) (ends []rhumb.Offset, err error) {
	next := from + 1
	for i := range rhumb.Offset(wire.MaxProbes) {
		b, ok, err := l.firstFrom(max(next, from+1+(to-from-1)/wire.MaxProbes*i))
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
