package kafka

import "github.com/rhumbmq/rhumb/internal/codec"

const (
	// sumField bounds what lies between two batches: where more does, hashing ends. What
	// is not all there yet is looked at again with each piece, from its beginning.
	sumField = 64 << 10
	// maxSums bounds the batches that are hashed.
	maxSums = 1024
)

// bodySums finds the batches of a Produce request while its body comes, and hashes them.
// What came a moment ago is in the processor's cache; when all of several megabytes is
// there, it has to be fetched from memory once more, which takes longer than hashing it. It
// goes by the fields of the request as decodeProduce does, and judges nothing: what it
// cannot make out is left to that.
type bodySums struct {
	version  int16
	flexible bool
	size     int // of the whole body, with the header

	transactional bool
	acks          int16

	at        int // what lies before it is done with
	state     sumState
	topics    int // that are not over
	topic     *sumTopic
	parts     int // of topic, that are not over
	partition int32
	start     int // of the batch that at is in
	length    int // of it
	crc       uint32
	sums      []batchSum
	asked     int // of sums
}

// batchSum is a batch that is all there, and the hash of what its CRC covers.
type batchSum struct {
	topic     *sumTopic
	partition int32
	start     int // in the body
	size      int // 0 if there is none
	crc       uint32
}

// sumTopic is a topic as a request names it.
type sumTopic struct {
	name string
	id   [16]byte
}

// sumState is what comes next in a request.
type sumState uint8

const (
	atHead sumState = iota
	atTopic
	atPart
	atBatch
	behindBatch
	behindParts
	atEnd
)

// advance hashes as far as b goes, which is the beginning of the body.
func (s *bodySums) advance(b []byte) {
	for s.state != atEnd {
		if s.state == atBatch {
			if !s.hash(b) {
				return
			}
			continue
		}
		d := decoder{b: b[s.at:]}
		next := s.field(&d)
		if d.bad {
			if len(b)-s.at > sumField {
				s.state = atEnd
			}
			return
		}
		s.at, s.state = len(b)-len(d.b), next
		if next == atBatch {
			s.begin()
		}
	}
}

// field reads what comes before a batch, or behind it, and tells what follows. If not all
// of it is there, d is bad and nothing has changed that counts.
func (s *bodySums) field(d *decoder) sumState {
	switch s.state {
	case atHead:
		d.int32() // correlation id
		d.bytes(max(0, int(d.int16())))
		if s.flexible {
			d.tags()
		}
		s.transactional = d.nullable(s.flexible, false) != nil
		s.acks = d.int16()
		d.int32() // timeout
		s.topics = d.length(s.flexible, true)
		return s.topicOrEnd()
	case atTopic:
		s.topic = &sumTopic{}
		if s.version >= produceWithIDs {
			copy(s.topic.id[:], d.bytes(len(s.topic.id)))
		} else {
			s.topic.name = string(d.nullable(s.flexible, false))
		}
		s.parts = d.length(s.flexible, true)
	case atPart:
		s.partition = d.int32()
		s.length = d.length(s.flexible, true)
		return atBatch
	case behindBatch:
		if s.flexible {
			d.tags()
		}
		if !d.bad {
			s.parts--
		}
	case behindParts:
		if s.flexible {
			d.tags()
		}
		if !d.bad {
			s.topics--
		}
		return s.topicOrEnd()
	}
	if s.parts > 0 {
		return atPart
	}
	return behindParts
}

func (s *bodySums) topicOrEnd() sumState {
	if s.topics > 0 {
		return atTopic
	}
	return atEnd
}

// begin begins a batch of length bytes, negative if there is none.
func (s *bodySums) begin() {
	s.length = max(s.length, 0)
	s.start, s.crc = s.at, 0
	if s.length > s.size-s.at {
		s.state = atEnd // it is not within the request
	}
}

// hash goes on with a batch, and reports whether it is over.
func (s *bodySums) hash(b []byte) bool {
	end := s.start + s.length
	from, to := max(s.at, s.start+codec.BatchCRCStart), min(len(b), end)
	if from < to {
		s.crc = codec.ChecksumUpdate(s.crc, b[from:to])
		s.at = to
	}
	if to < end {
		return false
	}
	s.sums = append(s.sums, batchSum{topic: s.topic, partition: s.partition, start: s.start, size: s.length, crc: s.crc})
	if s.at, s.state = end, behindBatch; len(s.sums) == maxSums {
		s.state = atEnd
	}
	return true
}

// of gives what is known of a batch of so many bytes with so many behind it in the body, nil
// if nothing is. Batches are asked for in their order.
func (s *bodySums) of(size, behind int) *batchSum {
	if s == nil {
		return nil
	}
	start := s.size - behind - size
	for s.asked < len(s.sums) && s.sums[s.asked].start < start {
		s.asked++
	}
	if s.asked == len(s.sums) || s.sums[s.asked].start != start || s.sums[s.asked].size != size {
		return nil
	}
	return &s.sums[s.asked]
}
