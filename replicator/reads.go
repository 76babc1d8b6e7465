package replicator

import (
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/replicator/session"
)

// leastRead is what a session takes from the budget for its first read. What it takes it
// has until it has sent what came: with a whole read for one small record, a hundred
// sessions would have the budget, and of ten thousand with a record a second each the
// others would wait in line for it.
const leastRead = 16 << 10

// meanBytes is what an offset of a log takes on average.
func meanBytes(st *partitionState) float64 {
	if kept := st.End - st.LogStart; kept > 0 {
		return float64(st.Bytes) / float64(kept)
	}
	return 0
}

// nextRead says how much to ask for after a read that asked for so many bytes and gave
// some: more if there was more, up to most, less if that was far too much.
func nextRead(asked, got, most int, complete bool) int {
	switch {
	case !complete:
		asked = 4 * max(asked, got)
	case got > asked:
		asked = got
	case 4*got < asked:
		asked /= 2
	}
	return min(max(asked, leastRead), most)
}

// expected is about what a read will give.
func (s *sending) expected(r *session.Read) int {
	return int(min(float64(r.MaxBytes), float64(r.Limit-r.After-1)*s.flow.log().bytesPerOffset()))
}

// bytesOf tells what was read.
func bytesOf(r *session.ReadResult) (n int) {
	for i := range r.Messages {
		n += codec.EnvelopeSize + len(r.Messages[i].Batch)
	}
	return n
}
