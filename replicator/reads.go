package replicator

import (
	"context"

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

// glance looks at the log if it grew. A session that is far behind may perform for hours,
// and while it holds the partition nobody else tells other links that there is more for them.
// One that has just ended leaves what came to who wakes the flow: it would have seen it,
// and sent nothing of it.
func (s *sending) glance(ctx context.Context) error {
	if !s.flow.machine.Status().State.Open() {
		return nil
	}
	select {
	case <-s.waiter.C:
	default:
		return nil
	}
	src, err := s.look(ctx)
	if err == nil {
		s.flow.machine.OnSource(src)
	}
	return err
}

// leaveLimiter lets another session of the edge read.
func (s *sending) leaveLimiter() {
	if s.slot != nil {
		s.slot()
		s.slot = nil
	}
}

// read takes bytes from the budget and reads that many.
func (s *sending) read(ctx context.Context, r session.Read) error {
	s.ledger.keep() // what an earlier read left over
	s.leaveLimiter()
	rank := s.flow.rankAfter(r.After, s.head)
	err := s.wait(func() error {
		err := s.flow.atLimit(func() (_ bool, err error) {
			s.slot, err = s.limiter.enter(ctx, s.flow.class, rank)
			return false, err
		})
		if err != nil {
			return err
		}
		r.MaxBytes = s.limiter.chunk(min(r.MaxBytes, max(s.asks, s.expected(&r)), s.ledger.budget.most()))
		return s.ledger.budget.acquire(ctx, int64(r.MaxBytes), s.flow.class, rank)
	})
	if err != nil {
		return err
	}
	s.ledger.reserve(int64(r.MaxBytes))
	result := s.flow.log().messages(ctx, r)
	if result.Err == nil {
		got := bytesOf(&result)
		s.flow.weigh(&result, r.After, s.head)
		s.ledger.cover(int64(got))
		s.asks = nextRead(s.asks, got, s.flow.link.m.cfg.Limits.Read, result.Complete)
	}
	if err := s.judge(ctx, &result); err != nil {
		return err
	}
	s.flow.machine.OnRead(result)
	return nil
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
