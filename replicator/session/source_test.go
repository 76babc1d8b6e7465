package session

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// twinSource is a source's log of one life, as plain lists. Offsets that no
// batch has belong to other origins.
type twinSource struct {
	life    rhumb.Life
	batches []Message
	end     rhumb.Offset
	flushed rhumb.Offset // first offset that a crash can forget
	dropped int          // batches below the floor
	start   dedup.ChainPoint
	written uint32 // makes each batch's bytes differ
	closed  bool   // the life was closed at last
	last    rhumb.Offset
	floors  []Floor // earlier ones than dropped

	// What compaction did: batches that it took, by their first offset, and those that
	// it thinned, as they were before.
	gone      map[rhumb.Offset]bool
	before    map[rhumb.Offset][]Message
	compacted rhumb.Offset
}

func newTwinSource(life rhumb.Life, seed uint32) *twinSource {
	return &twinSource{life: life, written: seed, start: dedup.ChainPoint{Offset: rhumb.NoOffset},
		gone: map[rhumb.Offset]bool{}, before: map[rhumb.Offset][]Message{}}
}

// makeBatch makes a record batch of count records with payload bytes.
func makeBatch(first rhumb.Offset, count int32, payload []byte) ([]byte, codec.BatchHeader) {
	be := binary.BigEndian
	b := append(make([]byte, codec.BatchHeaderSize, codec.BatchHeaderSize+len(payload)), payload...)
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(count-1))
	be.PutUint64(b[43:], ^uint64(0))
	be.PutUint32(b[57:], uint32(count))
	be.PutUint32(b[17:], codec.Checksum(b[21:]))
	codec.PatchBatch(b, first, 1)
	h, err := codec.CheckBatch(b)
	if err != nil {
		panic(err)
	}
	return b, h
}

// own appends a batch of this origin.
func (s *twinSource) own(records int32, payload int) {
	s.written++
	body := make([]byte, 4+payload)
	binary.BigEndian.PutUint32(body, s.written)
	b, h := makeBatch(s.end, records, body)
	p := s.pointBefore(len(s.batches))
	last := s.end + rhumb.Offset(records) - 1
	s.batches = append(s.batches, Message{Batch: b, Envelope: codec.Envelope{
		Region: 1, Life: s.life, First: s.end, Last: last, Prev: p.Offset,
		Chain: codec.NextChain(p.Chain, s.end, last, h.CRC), Count: uint32(records), BatchSize: uint32(len(b)),
	}})
	s.end = last + 1
}

// pointBefore is the end of the batch before the i-th.
func (s *twinSource) pointBefore(i int) dedup.ChainPoint {
	if i == 0 {
		return dedup.ChainPoint{Offset: rhumb.NoOffset}
	}
	e := s.batches[i-1].Envelope
	return dedup.ChainPoint{Offset: e.Last, Chain: e.Chain}
}

// drop lets retention take the first n batches, of those that are flushed.
func (s *twinSource) drop(n int) {
	for s.dropped < min(n, len(s.batches)) && s.batches[s.dropped].Envelope.Last < s.flushed {
		s.dropped++
	}
}

// crash forgets what is not flushed.
func (s *twinSource) crash() { s.cut(s.flushed) }

// cut is also what a restore from an old copy does.
func (s *twinSource) cut(end rhumb.Offset) {
	n := len(s.batches)
	for n > 0 && s.batches[n-1].Envelope.Last >= end {
		n--
	}
	s.batches = s.batches[:n:n]
	s.end, s.flushed = min(s.end, end), min(s.flushed, end)
}

func (s *twinSource) source() Source {
	src := Source{Start: s.start, Floor: s.pointBefore(s.dropped), FloorReason: rhumb.ReasonRetention, Floors: s.floors,
		OwnLast: s.pointBefore(len(s.batches)).Offset, Head: s.flushed, End: s.end}
	src.Compacted = s.compacted
	if s.dropped > 0 && s.dropped < len(s.batches) && s.gone[s.batches[s.dropped].Envelope.First] {
		src.Floor.Chain, src.FloorOpen = 0, true
	}
	if s.closed {
		src.Closed, src.Last = true, s.last
		src.OwnLast, src.Head = min(src.OwnLast, s.last), min(src.Head, s.last+1)
	}
	return src
}

func (s *twinSource) chainAt(p dedup.ChainPoint) ChainAnswer {
	if p.Offset >= s.end || p.Offset < s.pointBefore(s.dropped).Offset {
		return ChainAnswer{}
	}
	i := len(s.batches)
	for i > 0 && s.batches[i-1].Envelope.Last > p.Offset {
		i--
	}
	if i < len(s.batches) && s.batches[i].Envelope.First <= p.Offset {
		return ChainAnswer{Known: true, Inside: true}
	}
	if i < len(s.batches) && s.gone[s.batches[i].Envelope.First] && (i == 0 || s.gone[s.batches[i-1].Envelope.First] || s.batches[i-1].Envelope.Last < p.Offset) {
		return ChainAnswer{} // neither the batch before nor the one behind tells
	}
	return ChainAnswer{Chain: s.pointBefore(i).Chain, Known: true}
}

func (s *twinSource) read(r Read) ReadResult {
	res := ReadResult{Gen: r.Gen, Complete: true, Source: s.source()}
	bytes := 0
	for _, m := range s.batches[s.dropped:] {
		if m.Envelope.First <= r.After || m.Envelope.First >= r.Limit || s.gone[m.Envelope.First] {
			continue
		}
		if bytes += m.size(); bytes > r.MaxBytes && len(res.Messages) > 0 {
			res.Complete = false
			break
		}
		res.Messages = append(res.Messages, m)
	}
	return res
}

// borders lists ends of batches between two offsets, few of them, so that a
// search takes several rounds.
func (s *twinSource) borders(from, to rhumb.Offset) (ends []rhumb.Offset) {
	var all []rhumb.Offset
	for _, m := range s.batches[s.dropped:] {
		if last := m.Envelope.Last; from < last && last < to && !s.gone[m.Envelope.First] {
			all = append(all, last)
		}
	}
	for i := range all {
		if i == 0 || i%(1+len(all)/3) == 0 {
			ends = append(ends, all[i])
		}
	}
	return ends
}
