package replicator

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/replicator/strands"
)

const (
	// baseWait is how long a strand waits for the base of its lane: that comes over
	// another connection, where a packet may have been lost.
	baseWait = 6 * time.Second
	// maxSpread bounds the lanes of a peer of which strands came.
	maxSpread = 64
)

// spreadLane is a lane of the peer's whose bytes come over several connections.
type spreadLane struct {
	receiver *strands.Receiver
	based    chan struct{} // closed when the base came; guarded by inbound.mu
	claimed  bool          // it did
}

// source gives what a lane's bytes are read from. end is called when it is over.
func (in *inbound) source(ctx context.Context, stream *quic.Stream) (r io.Reader, end func(), err error) {
	if in.conn.pool.most < 2 {
		return stream, func() {}, nil
	}
	x, err := strands.Accept(baseIn{stream})
	if err != nil {
		return nil, func() {}, err
	}
	in.mu.Lock()
	l := in.lane(x.Lane)
	if l == nil || l.claimed {
		in.mu.Unlock()
		return nil, func() {}, brokenf("lane %d begins twice, or is one too many", x.Lane)
	}
	l.claimed = true
	l.receiver.Base(x)
	close(l.based)
	in.mu.Unlock()
	stop := context.AfterFunc(ctx, l.receiver.Cancel)
	return l.receiver, func() {
		stop()
		l.receiver.Cancel()
		l.receiver.Wait()
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.spread, x.Lane)
	}, nil
}

// lane finds or makes a lane, nil if there are too many. The caller holds mu.
func (in *inbound) lane(id uint64) *spreadLane {
	l := in.spread[id]
	if l == nil && len(in.spread) < maxSpread {
		l = &spreadLane{receiver: strands.NewReceiver(), based: make(chan struct{})}
		in.spread[id] = l
	}
	return l
}

// join gives a lane one of its strands, whose base may come later. It is false if the
// lane has no use for it.
func (in *inbound) join(ctx context.Context, x *strands.Incoming) bool {
	in.mu.Lock()
	l := in.lane(x.Lane)
	in.mu.Unlock()
	if l == nil || !l.receiver.Add(x) {
		return false
	}
	late := time.NewTimer(baseWait)
	defer late.Stop()
	select {
	case <-l.based:
		return true
	case <-ctx.Done():
	case <-late.C: // the lane is over already
	}
	in.mu.Lock()
	orphan := !l.claimed
	if orphan {
		delete(in.spread, x.Lane)
	}
	in.mu.Unlock()
	if orphan {
		l.receiver.Cancel()
	}
	return true
}

// spreadable gives the lanes that can use several connections.
func (ls *lanes) spreadable() []*lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ls.open), func(l *lane) bool { return l.out == nil || l.broken.Load() })
}

// blockedFor gives for how long sessions waited for the lanes to take more since it was
// asked last. It is for the pool.
func (ls *lanes) blockedFor() (sum time.Duration) {
	for _, l := range ls.spreadable() {
		now := l.out.Blocked()
		sum += max(0, now-l.blocked)
		l.blocked = now
	}
	return sum
}

// weigh has lanes prefer the connections with the largest windows, so that what does not
// need all of them does not wait for one that takes little.
func (p *pool) weigh() {
	weight := func(qc *quic.Conn) int64 { return int64(qc.ConnectionStats().CongestionWindow) }
	for _, l := range p.conn.lanes.spreadable() {
		if len(l.on) == 0 {
			continue
		}
		l.out.Weigh(nil, weight(p.conn.qc))
		for m, s := range l.on {
			l.out.Weigh(s, weight(m.qc))
		}
	}
}
