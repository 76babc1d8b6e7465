package replicator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/strands"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// member is a connection that joined a link's. It carries strands of lanes, both ways.
type member struct {
	pool    *pool
	qc      *quic.Conn
	number  uint16
	strands atomic.Int64 // that the peer sends on
	served  bool         // the peer dialled it; set before run

	stopOnce sync.Once
	stopped  chan struct{} // closed by end
	cause    error         // valid once stopped is closed
}

// joining is what greet gives for a connection that says that it joins another one.
type joining struct {
	frame  *wire.Join
	stream *quic.Stream
}

func (*joining) Error() string { return "replicator: the connection joins another one" }

func newMember(p *pool, qc *quic.Conn, number uint16) *member {
	return &member{pool: p, qc: qc, number: number, stopped: make(chan struct{})}
}

func (m *member) end(cause error) {
	m.stopOnce.Do(func() {
		m.cause = cause
		close(m.stopped)
	})
}

func (m *member) ended() bool {
	select {
	case <-m.stopped:
		return true
	default:
		return false
	}
}

// join dials a connection, to where the first one leads, and has the peer take it.
func (p *pool) join(ctx context.Context, number uint16) (*member, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, joinTime, rhumb.Errorf(rhumb.KindTimeout, "no answer"))
	defer cancel()
	m := p.conn.m
	qc, err := m.endpoint.dialTo(ctx, p.conn.link.name, p.conn.qc.RemoteAddr())
	if err != nil {
		return nil, reading(err)
	}
	x := newMember(p, qc, number)
	if err = x.ask(ctx); err == nil && !p.add(x, false) {
		err = errEnough
	}
	if err != nil {
		code, text := closing(err)
		_ = qc.CloseWithError(code, text)
		return nil, reading(err)
	}
	return x, nil
}

// ask tells the peer which connection this one joins, and waits for its answer.
func (m *member) ask(ctx context.Context) error {
	stream, err := m.qc.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := stream.SetDeadline(deadline); err != nil {
		return err
	}
	join := wire.Join{Pool: m.pool.id, Number: m.number}
	if _, err := stream.Write(wire.Append(nil, &join)); err != nil {
		return err
	}
	f, err := wire.NewReader(stream, noBudget{}).Next()
	if err != nil {
		return err
	}
	if got, ok := f.(*wire.Join); !ok || *got != join {
		return brokenf("a %s frame in answer to a join", f.Type())
	}
	return stream.SetDeadline(time.Time{})
}

// joins takes a connection that says that it joins another one, and serves it. Only
// the region at the other end of that one can: its certificate says who it is.
func (m *Manager) joins(ctx context.Context, qc *quic.Conn, j *joining) {
	x, err := m.takeJoin(qc, j.frame)
	if err != nil {
		code, text := closing(err)
		_ = qc.CloseWithError(code, text)
		return
	}
	defer m.joined.release(1)
	if _, err := j.stream.Write(wire.Append(nil, j.frame)); err != nil {
		x.end(err)
	}
	_ = j.stream.SetDeadline(time.Time{})
	x.run(ctx)
}

// takeJoin finds what a connection joins. The caller gives the right to have joined back.
func (m *Manager) takeJoin(qc *quic.Conn, join *wire.Join) (*member, error) {
	id, err := certs.PeerOf(qc.ConnectionState().TLS)
	if err != nil {
		return nil, refusef("%v", err)
	}
	var c *conn
	if l := m.link(rhumb.RegionName(id.Name)); l != nil && id.Mesh == m.cfg.Self.Mesh {
		l.mu.Lock()
		c = l.conn
		l.mu.Unlock()
	}
	if c == nil || c.dialled || c.pool.most < 2 || c.pool.id != join.Pool || join.Number == 0 {
		return nil, errSuperseded // it is over, or not adopted yet
	}
	if !m.joined.try(1) {
		return nil, errEnough
	}
	x := newMember(&c.pool, qc, join.Number)
	if !c.pool.add(x, true) {
		m.joined.release(1)
		return nil, errEnough
	}
	return x, nil
}

// run serves the connection until it ends.
func (m *member) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { drain(ctx, m.qc) })
	wg.Go(func() { m.warm(ctx) })
	wg.Go(func() {
		for {
			stream, err := m.qc.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			m.strands.Add(1)
			wg.Go(func() { m.strand(ctx, stream) })
		}
	})
	select {
	case <-m.stopped:
	case <-ctx.Done():
		m.end(errStopped)
	case <-m.qc.Context().Done():
		m.end(reading(context.Cause(m.qc.Context())))
	}
	cancel()
	m.pool.remove(m)
	code, text := closing(m.cause)
	_ = m.qc.CloseWithError(code, text)
	wg.Wait()
	if !quiet(m.cause) {
		m.pool.conn.link.counters.lostConnections.Add(1)
	}
	if m.served {
		m.pool.ran.Done()
	}
}

// strand gives a stream of the peer's to the lane that it names.
func (m *member) strand(ctx context.Context, stream *quic.ReceiveStream) {
	in := &strandIn{ReceiveStream: stream, over: func() { m.strands.Add(-1) }}
	_ = stream.SetReadDeadline(time.Now().Add(helloTimeout))
	x, err := strands.Accept(in)
	if err != nil {
		in.Cancel()
		return
	}
	_ = stream.SetReadDeadline(time.Time{})
	if !m.pool.conn.inbound.join(ctx, x) {
		in.Cancel()
	}
}

// baseOut, strandOut, baseIn and strandIn are streams as package strands wants them.
type baseOut struct{ *quic.Stream }

func (s baseOut) Cancel() { s.CancelWrite(streamGivenUp) }

type strandOut struct{ *quic.SendStream }

func (s strandOut) Cancel() { s.CancelWrite(streamGivenUp) }

type baseIn struct{ *quic.Stream }

func (s baseIn) Cancel() { s.CancelRead(streamGivenUp) }

type strandIn struct {
	*quic.ReceiveStream
	once sync.Once
	over func()
}

func (s *strandIn) Cancel() {
	s.CancelRead(streamGivenUp)
	s.once.Do(s.over)
}
