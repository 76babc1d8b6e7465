package replicator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// maxReceivers bounds the sessions that a peer may have open on a connection.
const maxReceivers = 100_000

// maxAnswers bounds the answers of a lane that the peer has not read: one per
// batch of some full windows.
const maxAnswers = 1 << 20

// inbound are the sessions that the peer sends on a connection.
type inbound struct {
	conn *conn
	asks *gate         // sessions that ask the region where they stand
	look chan struct{} // capacity 1: policy or topics changed

	mu        sync.Mutex
	receivers map[wire.SessionID]*receiver
	spread    map[uint64]*spreadLane
}

// receiver is one of them. Its machine is driven by the lane's two goroutines.
type receiver struct {
	// Fixed at construction.
	id   wire.SessionID
	open wire.Open
	lane *inLane
	ref  rhumb.PartitionRef
	stop context.CancelFunc

	mu      sync.Mutex
	machine *session.Receiver
	moved   time.Time

	resultsMu sync.Mutex // held for moments only: the region's goroutines take it
	results   []result
}

type result struct {
	ticket uint64
	res    session.Result
}

// inLane is a stream on which the peer's sessions send. One goroutine reads it,
// another one writes the answers.
type inLane struct {
	in     *inbound
	stream *quic.Stream
	wake   chan struct{} // capacity 1: answers or results wait

	mu      sync.Mutex
	answers []wire.Frame
	dirty   []*receiver // have results
	closed  bool
}

func (in *inbound) init(c *conn) {
	in.conn, in.asks, in.look = c, newGate(c.m.cfg.Limits.Opening), make(chan struct{}, 1)
	in.receivers, in.spread = map[wire.SessionID]*receiver{}, map[uint64]*spreadLane{}
}

// accept serves the lanes that the peer opens.
func (in *inbound) accept(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		stream, err := in.conn.qc.AcceptStream(ctx)
		if err != nil {
			return err
		}
		l := &inLane{in: in, stream: stream, wake: make(chan struct{}, 1)}
		wg.Go(func() { l.run(ctx) })
	}
}

// run serves a lane until the peer gives it up or the connection ends. What the
// peer wrote wrongly ends the connection.
func (l *inLane) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.speak(ctx); err != nil {
			l.stream.CancelRead(streamGivenUp)
			cancel()
		}
	})
	source, end, err := l.in.source(ctx, l.stream)
	if err == nil {
		err = l.hear(ctx, source, &wg)
	}
	cancel()
	end()
	l.stream.CancelWrite(streamGivenUp)
	l.stream.CancelRead(streamGivenUp)
	var b *broken
	if err = readError(err); errors.As(err, &b) {
		l.in.conn.end(err)
	}
	l.in.drop(func(r *receiver) bool { return r.lane == l })
	wg.Wait()
	l.close()
}

// close settles what came late. From now on results are settled by who brings
// them: nobody appends any more, so that does not wait.
func (l *inLane) close() {
	l.mu.Lock()
	l.closed = true
	dirty := l.dirty
	l.dirty, l.answers = nil, nil
	l.mu.Unlock()
	for _, r := range dirty {
		r.settle()
	}
}

// hear reads the lane. wg joins what it starts.
func (l *inLane) hear(ctx context.Context, source io.Reader, wg *sync.WaitGroup) error {
	reader := wire.NewReader(source, receiveBudget{ctx, l.in.conn.link.receive})
	for {
		f, err := reader.Next()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *wire.Open:
			err = l.open(ctx, f, wg)
		case *wire.Data:
			c := &l.in.conn.link.counters
			c.receivedBytes.Add(uint64(f.Size()))
			c.receivedBatches.Add(1)
			c.receivedRecords.Add(uint64(f.Envelope.Count))
			if !l.give(f.Session, f) {
				l.in.conn.link.receive.release(int64(f.Size())) // of a session that has ended
			}
		case *wire.Skip:
			l.give(f.Session, f)
		case *wire.Close:
			if l.give(f.Session, f) {
				l.in.end(f.Session)
			}
		default:
			err = brokenf("a %s frame from a source", f.Type())
		}
		if err == nil && l.crowded() {
			err = brokenf("answers are not read")
		}
		if err != nil {
			return err
		}
	}
}

// open admits a session, or refuses it, and asks the region where it stands.
func (l *inLane) open(ctx context.Context, f *wire.Open, wg *sync.WaitGroup) error {
	in := l.in
	r := &receiver{id: f.Session, open: *f, lane: l, moved: time.Now(), machine: session.NewReceiver(f, in.window())}
	ref, code, text := in.conn.admit(f)
	if code != wire.CodeNone {
		r.machine.Fail(code, text)
		r.perform()
		return nil
	}
	r.ref = ref
	if r.stop = func() {}; !f.Alone {
		ctx, r.stop = context.WithCancel(ctx)
	}
	if err := in.add(r); err != nil {
		r.stop()
		return err
	}
	if f.Alone {
		l.openAlone(r)
		return nil
	}
	if err := in.asks.acquire(ctx, 1, fresh); err != nil {
		return err
	}
	wg.Go(func() {
		defer in.asks.release(1)
		w, err := in.conn.m.cfg.Region.OpenOrigin(ctx, ref, f.Region, f.Life)
		var chains []dedup.ChainPoint
		if err == nil {
			chains, err = in.chains(ref, f)
		}
		take, leave, why := true, (*receiver)(nil), ""
		if err == nil {
			take, leave, why = in.conn.m.origins.offer(r, w.Offset, time.Now())
		}
		if leave != nil {
			leave.leave(fmt.Sprintf("region %s brings this origin", in.conn.link.name))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err != nil:
			r.machine.Fail(wire.CodeOf(err), err.Error())
		case !take:
			r.machine.Elsewhere(w, why)
		default:
			r.machine.Opened(w, chains...)
		}
		r.perform()
	})
	return nil
}

// chains answers the probes of an open: the chain of each batch of the life that
// ends at a probe.
func (in *inbound) chains(ref rhumb.PartitionRef, f *wire.Open) ([]dedup.ChainPoint, error) {
	points := make([]dedup.ChainPoint, len(f.Probes))
	for i, at := range f.Probes {
		points[i].Offset = at
		found, err := in.conn.m.cfg.Region.ReadOrigin(ref, originQuery{Partition: ref.ID, Region: f.Region, Life: f.Life,
			From: at, Limit: math.MaxInt64, MaxBytes: 1})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && found[0].Envelope.Last == at {
			points[i].Chain = found[0].Envelope.Chain
		}
	}
	return points, nil
}

// window is what a new session may send before it is confirmed: less if many
// share the budget, so that a few that are stuck cannot use it up.
func (in *inbound) window() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := &in.conn.m.cfg.Limits
	return int(min(l.Window, max(leastWindow, l.ReceiveBudget/int64(2*(len(in.receivers)+1)))))
}

// leastWindow is granted to each session, however many there are.
const leastWindow = 256 << 10

func (in *inbound) add(r *receiver) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.receivers[r.id] != nil {
		return brokenf("session %d is opened twice", r.id)
	}
	if len(in.receivers) == maxReceivers {
		return brokenf("more than %d sessions are open", maxReceivers)
	}
	in.receivers[r.id] = r
	return nil
}

// give takes a frame to its session, false if there is none.
func (l *inLane) give(id wire.SessionID, f wire.Frame) bool {
	l.in.mu.Lock()
	r := l.in.receivers[id]
	l.in.mu.Unlock()
	if r == nil || r.lane != l {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := f.(*wire.Data); ok && r.open.Alone {
		r.weigh(d)
	}
	r.machine.OnFrame(f)
	r.perform()
	return true
}

// perform does what the machine asks for. The caller holds mu, so that appends
// reach the region in order.
func (r *receiver) perform() {
	m := r.lane.in.conn.m
	for _, a := range r.machine.Actions() {
		switch a.Do {
		case session.DoSend:
			r.lane.answer(a.Frame)
			if last(a.Frame) {
				r.lane.in.forget(r)
			}
		case session.DoRelease:
			r.lane.in.conn.link.receive.release(int64(a.Bytes))
			if r.open.Alone {
				r.lane.in.conn.link.cameAlone.Add(-int64(a.Bytes))
			}
		case session.DoAppend:
			m.cfg.Region.AppendLink(r.ref, linkBatch{Envelope: a.Message.Envelope, Batch: a.Message.Batch}, r.answered(a.Ticket))
		case session.DoSkip:
			if a.Skip.Reason.IsGap() {
				m.log.Warn("records will never come: they become a gap", "peer_region", r.lane.in.conn.link.name, "topic", r.open.Partition.Topic.String(),
					"partition", r.open.Partition.Index, "origin", int(r.open.Region), "from", int64(a.Skip.From+1), "to", int64(a.Skip.To),
					"reason", a.Skip.Reason.String(), "by", a.Skip.By)
			}
			r.skip(linkSkip{Region: r.open.Region, Life: r.open.Life, Skip: a.Skip}, r.answered(a.Ticket))
		}
	}
	if r.open.Alone && r.machine.Over() {
		r.lane.in.forget(r)
	}
}

// last reports whether a session is over once the frame is sent.
func last(f wire.Frame) bool {
	switch f := f.(type) {
	case *wire.Refuse:
		return f.Code != wire.CodeMissing
	case *wire.Close:
		return true
	}
	return false
}

// answered gives the region what to call. It may be called before the append
// returns, and by a goroutine that must not wait.
func (r *receiver) answered(ticket uint64) func(linkResult) {
	return func(res linkResult) {
		r.resultsMu.Lock()
		code, text := codeElsewhere(res.Err)
		r.results = append(r.results, result{ticket, session.Result{Verdict: res.Verdict, Watermark: res.Watermark, Err: res.Err, Code: code, Text: text}})
		first := len(r.results) == 1
		r.resultsMu.Unlock()
		if first {
			r.lane.results(r)
		}
	}
}

// settle takes the results that came to the machine.
func (r *receiver) settle() {
	r.resultsMu.Lock()
	results := r.results
	r.results = nil
	r.resultsMu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range results {
		r.machine.OnResult(x.ticket, x.res)
	}
	r.moved = time.Now()
	r.perform()
}

func (l *inLane) answer(f wire.Frame) {
	l.mu.Lock()
	if !l.closed {
		l.answers = append(l.answers, f)
	}
	l.mu.Unlock()
	l.signal()
}

// crowded reports whether the peer sends without reading the answers.
func (l *inLane) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answers) > maxAnswers
}

// results has the results of a session settled.
func (l *inLane) results(r *receiver) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.dirty = append(l.dirty, r)
	}
	l.mu.Unlock()
	if closed {
		r.settle()
		return
	}
	l.signal()
}

func (l *inLane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// speak turns results into answers and writes them.
func (l *inLane) speak(ctx context.Context) error {
	writer := wire.NewWriter(l.stream, false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		l.mu.Lock()
		dirty := l.dirty
		l.dirty = nil
		l.mu.Unlock()
		for _, r := range dirty {
			r.settle()
		}
		l.mu.Lock()
		answers := l.answers
		l.answers = nil
		l.mu.Unlock()
		for _, f := range answers {
			if err := writer.Write(f); err != nil {
				return err
			}
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

// drop forgets sessions. What of them is with the region is still answered, and
// its bytes are given back then.
func (in *inbound) drop(which func(*receiver) bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, r := range in.receivers {
		if which(r) {
			delete(in.receivers, id)
			r.stop()
			in.conn.m.origins.left(r)
		}
	}
}

// end is drop for the session of a number.
func (in *inbound) end(id wire.SessionID) {
	in.mu.Lock()
	r := in.receivers[id]
	in.mu.Unlock()
	if r != nil {
		in.forget(r)
	}
}

// forget is drop for one that may not be there.
func (in *inbound) forget(r *receiver) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.receivers[r.id] == r {
		delete(in.receivers, r.id)
		r.stop()
		in.conn.m.origins.left(r)
	}
}
