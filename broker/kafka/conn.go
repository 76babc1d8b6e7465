package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// conn is one client connection.
type conn struct {
	server *Server
	at     *bound
	nc     net.Conn
	peer   netip.Addr // whose connections are counted together
	in     *reader
	ctx    context.Context // until the connection is closed
	cancel context.CancelFunc
	out    *outbox // requests in order

	broken bool // an answer could not be sent; the writer owns it

	sendsFiles bool        // the kernel can send from files
	placed     atomic.Bool // an answer by place is on its way

	// unanswered holds a token per produce without an answer that is not stored
	// yet; its capacity is MaxInFlight, too.
	unanswered chan struct{}

	mu       sync.Mutex
	draining bool
	refused  error // why a request without an answer failed
	user     rhumb.UserName

	// polls ends when there is nobody left to wait for: the client has gone or
	// the server drains.
	polls     context.Context
	stopPolls context.CancelFunc

	// Owned by the reader.
	lastFetch <-chan struct{} // closed when the fetch before is answered
	auth      auth
	who       *caller // of the last request, if it is a user
	ending    error   // ends the connection after the answer that was queued last
}

func newConn(s *Server, at *bound, nc net.Conn) *conn {
	c := &conn{server: s, at: at, nc: nc, peer: addressOf(nc), out: newOutbox(s.cfg.MaxInFlight)}
	c.unanswered = make(chan struct{}, s.cfg.MaxInFlight)
	c.in = newReader(nc)
	_, tcp := nc.(*net.TCPConn)
	c.sendsFiles = tcp && canSendFile
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.polls, c.stopPolls = context.WithCancel(c.ctx)
	return c
}

// run serves the connection until its end.
func (c *conn) run() {
	defer c.cancel()
	if !c.handshake() {
		c.nc.Close()
		return
	}
	if err := c.startAuth(); err != nil {
		c.server.stats.loginsFailed.Add(1)
		c.server.report(c, err)
		c.nc.Close()
		return
	}
	err := c.read()
	c.server.report(c, err) // before the client can see the end
	c.stopPolls()
	c.out.writer.Wait()
	c.nc.Close()
}

func (c *conn) read() error {
	for {
		r, err := c.readNext()
		if err != nil {
			return err
		}
		answer, err := r.api.handle(c.ctx, r)
		if err != nil {
			r.release()
			return err
		}
		if answer == nil {
			continue // the appends give back what the request holds
		}
		c.out.put(pending{r, answer}, c.write)
		if c.ending != nil {
			return c.ending
		}
	}
}

func (c *conn) readNext() (*request, error) {
	if c.auth.raw {
		return c.readToken()
	}
	return c.readRequest()
}

// setReadDeadline sets how long the next bytes may take, unless the connection
// drains: then the deadline stays in the past.
func (c *conn) setReadDeadline(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return os.ErrDeadlineExceeded
	}
	until := time.Now().Add(d)
	if by := c.auth.by; !by.IsZero() && by.Before(until) {
		until = by // a stranger does not stay for long
	}
	return c.nc.SetReadDeadline(until)
}

// drain stops reading; what is in flight is answered, then the connection ends.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	c.nc.SetReadDeadline(time.Unix(1, 0)) // an error means that it is closed already
	c.mu.Unlock()
	c.stopPolls()
}

// abort ends the connection like drain does, and says why. It does not block.
func (c *conn) abort(err error) {
	c.mu.Lock()
	if c.refused == nil {
		c.refused = err
	}
	c.mu.Unlock()
	c.drain()
}

// refusal is what abort said.
func (c *conn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// isDraining tells an end that the server wanted from one that it did not.
func (c *conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// write sends answers in the order of the requests, until there are none. After a
// failed send it goes on to call replies, since they hold what must be given back.
func (c *conn) write() {
	for p, ok := c.out.next(); ok; p, ok = c.out.next() {
		if c.broken {
			c.cancel() // replies end soon
		}
		resp := p.reply(c.ctx)
		if !c.broken && !resp.silent {
			if err := c.send(p.r, resp.bufs, resp.placed); err != nil {
				c.broken = true
				if errors.Is(err, errUnreadable) {
					c.server.report(c, err)
				}
				c.nc.Close() // wakes the reader
			}
		}
		if resp.release != nil {
			resp.release()
		}
		kept := p.r.kept
		if !p.r.appending {
			p.r.release()
		}
		c.out.sent(kept)
	}
}

// isOrderly reports whether a connection's end is nothing to tell about.
func isOrderly(err error) bool {
	var timeout net.Error
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, errClosed) || errors.As(err, &timeout)
}
