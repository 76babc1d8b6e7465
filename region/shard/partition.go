package shard

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// originKey names an origin life inside a partition.
type originKey struct {
	region rhumb.RegionNumber
	life   rhumb.Life
}

// partition is one partition's log in this shard.
//
// Invariant: 0 <= logStart <= end, and ownLast < end.
type partition struct {
	// Fixed when the partition is created.
	id        rhumb.PartitionID
	topicID   rhumb.UUID
	topic     rhumb.Topic
	index     int32
	deletions uint64
	createdAt int64

	// Applied state: changed by entries only, on the shard's goroutine.
	life       rhumb.Life
	past       []PastLife // that the log had before, oldest first; replaced, never changed
	logStart   rhumb.Offset
	end        rhumb.Offset
	ownLast    rhumb.Offset
	ownChain   uint64
	lastAppend int64
	marks      map[originKey]*mark
	producers  map[int64]*producer
	edges      map[rhumb.RegionNumber]rhumb.Offset // replaced, never changed
	starts     []StartMove                         // why the log start is where it is; replaced, never changed
	gaps       []Gap
	gapCount   uint64 // gap records ever stored: the next one's number

	// What of the applied state is not in the state database yet.
	dirty          bool
	moved          bool // a watermark did: what is published is old
	dirtyMarks     []*mark
	dirtyProducers []*producer

	spec specPosition // the leader's copy, with what is in flight
	view *view        // what other goroutines see
}

// mark is one origin life's watermark.
type mark struct {
	applied dedup.Watermark
	known   bool // an entry has moved it: it has a row
	dirty   bool
	spec    specOf[dedup.Watermark]
}

// producer is one producer id's table.
type producer struct {
	id      int64
	applied dedup.Producer
	known   bool
	dirty   bool
	spec    specOf[dedup.Producer]
}

func (p *producer) state() *dedup.Producer {
	if !p.known {
		return nil
	}
	return &p.applied
}

// specOf is the leader's speculative copy of one value, there only while
// something that changes it is in flight.
type specOf[T any] struct {
	value   *T
	pending int
}

// specPosition is the leader's speculative copy of a partition's positions.
type specPosition struct {
	pending  int // data commands in flight; nothing below counts while it is 0
	end      rhumb.Offset
	ownLast  rhumb.Offset
	ownChain uint64
	last     *proposal // the newest in flight that touches the partition
}

func newPartition(id rhumb.PartitionID) *partition {
	return &partition{id: id, ownLast: rhumb.NoOffset, view: newView()}
}

func (p *partition) mark(k originKey) *mark {
	m := p.marks[k]
	if m == nil {
		m = &mark{applied: dedup.NewWatermark(k.region, k.life)}
		if p.marks == nil {
			p.marks = make(map[originKey]*mark)
		}
		p.marks[k] = m
	}
	return m
}

// watermark gives the applied watermark of a life, a new one if none is known.
func (p *partition) watermark(k originKey) dedup.Watermark {
	if m := p.marks[k]; m != nil {
		return m.applied
	}
	return dedup.NewWatermark(k.region, k.life)
}

func (p *partition) producer(id int64) *producer {
	pr := p.producers[id]
	if pr == nil {
		pr = &producer{id: id}
		if p.producers == nil {
			p.producers = make(map[int64]*producer)
		}
		p.producers[id] = pr
	}
	return pr
}

// producerState gives the applied table of a producer id, nil if there is none.
func (p *partition) producerState(id int64) *dedup.Producer {
	if pr := p.producers[id]; pr != nil {
		return pr.state()
	}
	return nil
}

func (m *machine) touch(p *partition) {
	if !p.dirty {
		p.dirty = true
		m.dirty = append(m.dirty, p)
	}
}

func (m *machine) setMark(p *partition, k *mark, w dedup.Watermark) {
	m.touch(p)
	k.applied, k.known, p.moved = w, true, true
	if !k.dirty {
		k.dirty = true
		p.dirtyMarks = append(p.dirtyMarks, k)
	}
}

func (m *machine) setProducer(p *partition, pr *producer, state dedup.Producer) {
	m.touch(p)
	pr.applied, pr.known = state, true
	if !pr.dirty {
		pr.dirty = true
		p.dirtyProducers = append(p.dirtyProducers, pr)
	}
}
