package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// holding is a call's part of maxHeld: bodies and answers of megabytes that are in
// memory at the same time, of all calls together. Up to maxConcurrent calls may be
// answered at once; without this they could hold gigabytes.
type holding struct {
	s     *Server
	n     int64
	alone bool // it is the one call that may hold what is large, instead
}

// hold waits until n bytes more may be held, in the order of asking. It gives up as
// unavailable after holdTimeout, or when the request or the server ends.
func (s *Server) hold(r *http.Request, n int64) (*holding, error) {
	ctx, cancel := s.untilStop(r, holdTimeout)
	defer cancel()
	began := time.Now()
	if err := s.held.Acquire(ctx, n); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = rhumb.Errorf(rhumb.KindUnavailable, "other calls hold the %d bytes that bodies and answers may take, since %s: try again",
				int64(maxHeld), time.Since(began).Round(time.Second))
		} else {
			err = rhumb.Errorf(rhumb.KindUnavailable, "the call ends: %w", err)
		}
		return nil, err
	}
	return &holding{s: s, n: n}, nil
}

// holdAlone waits as hold does, until no other call has a record or a batch of more than
// maxConsumeBytes in memory. Who waits holds nothing else, so nobody waits in a circle, and
// those who ask for little go on.
func (s *Server) holdAlone(r *http.Request) (*holding, error) {
	ctx, cancel := s.untilStop(r, holdTimeout)
	defer cancel()
	select {
	case s.alone <- struct{}{}:
		return &holding{s: s, alone: true}, nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "records and batches of more than %d bytes are read one at a time, and other calls have read such ones for %s: try again",
			maxConsumeBytes, holdTimeout)
	}
	return nil, rhumb.Errorf(rhumb.KindUnavailable, "the call ends: %w", ctx.Err())
}

// shrink gives back what is more than n. Who is alone stays so.
func (h *holding) shrink(n int64) {
	if n < h.n {
		h.s.held.Release(h.n - n)
		h.n = n
	}
}

// release gives back all of it. It may be called again.
func (h *holding) release() {
	h.shrink(0)
	if h.alone {
		h.alone = false
		<-h.s.alone
	}
}

// holdBody holds the body of a call that may be large; nil for one that is not. A body
// that does not say how long it is counts as the longest.
func (s *Server) holdBody(rt route, r *http.Request) (*holding, error) {
	size := r.ContentLength
	if size < 0 {
		size = rt.body
	}
	if size <= maxSmallBody {
		return &holding{s: s}, nil
	}
	return s.hold(r, size)
}

// heldRecords are an answer that is held until it is written.
type heldRecords struct {
	api.RecordList
	held *holding
}

// letGo ends what an answer holds, if it is of those that do.
func letGo(answer any) {
	if a, ok := answer.(heldRecords); ok {
		a.held.release()
	}
}
