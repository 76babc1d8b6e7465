package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// errClosed is the cause of what ends because the server was closed.
var errClosed = errors.New("kafka: server closed")

// Server is the Kafka door of one node. Use: New, Listen for each listener,
// Serve, then Shutdown or Close.
type Server struct {
	cfg      Config
	broker   *broker.Broker
	log      *slog.Logger
	requests *budget // requests that are read or worked on
	rooms    *rooms  // that bodies of large ones were read into
	decoding *budget // what codecs may take at most while they decode
	fetches  *budget
	spare    *budget // of fetches that find nothing free there
	answers  *budget // encoded answers but fetched data
	sessions *sessions
	limiter  limiter
	stats    stats
	checking chan struct{} // passwords that are being checked

	handshakes handshakes

	conns   sync.WaitGroup // one per connection
	helpers sync.WaitGroup // what Serve starts beside
	done    chan struct{}  // closed by Close and at the end of Shutdown

	mu      sync.Mutex
	bounds  []*bound
	open    map[*conn]struct{}
	door    doorkeeper // of open
	serving bool
	stopped bool // no more connections
	closed  bool
}

// bound is a listener with its socket.
type bound struct {
	Listener
	host string // as advertised, "" for the address that the client uses
	port int32
	ln   net.Listener

	anonymous *caller // who did not have to say who he is
}

// New builds a server; it binds and starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Server{
		cfg:      cfg,
		broker:   cfg.Broker,
		log:      cfg.Logger.With("component", "kafka"),
		requests: newSharedBudget(cfg.RequestBudget, min(cfg.RequestBudget/8, cfg.RequestBudget-int64(cfg.MaxRequest))),
		rooms:    newRooms(cfg.RequestBudget),
		decoding: newBudget(int64(cfg.MaxSmallRequest) * decodeFactor),
		fetches:  newBudget(cfg.FetchBudget),
		spare:    newBudget(max(cfg.FetchBudget/8, broker.ReserveShare)),
		answers:  newBudget(cfg.AnswerBudget),
		sessions: newSessions(cfg.MaxSessions),
		checking: make(chan struct{}, runtime.GOMAXPROCS(0)),
		done:     make(chan struct{}),
		open:     map[*conn]struct{}{},
		door:     newDoorkeeper(),
	}, nil
}

// Listen binds a listener and gives its address. It takes connections from
// Serve on.
func (s *Server) Listen(l Listener) (net.Addr, error) {
	ln, err := net.Listen("tcp", l.Bind)
	if err != nil {
		return nil, fmt.Errorf("kafka: listener %q: %w", l.Name, err)
	}
	if err := s.AddListener(l, ln); err != nil {
		ln.Close()
		return nil, err
	}
	return ln.Addr(), nil
}

// AddListener is Listen for a socket that is bound already: the server owns it
// from then on.
func (s *Server) AddListener(l Listener, ln net.Listener) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.asks() && s.cfg.Accounts == nil {
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: listener %q asks who clients are, and there are no accounts", l.Name)
	}
	host, port, err := l.advertised()
	if err != nil {
		return err
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && port == 0 {
		port = int32(tcp.Port)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving || s.stopped {
		return errors.New("kafka: listeners are added before Serve")
	}
	s.bounds = append(s.bounds, &bound{Listener: l, host: host, port: port, ln: ln, anonymous: s.anonymous(l.Namespace)})
	return nil
}

// Serve takes connections on all listeners until Shutdown or Close, or until
// ctx is done, which closes. It returns when every connection has ended: nil
// after Shutdown and Close, else the cause.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	s.serving = true
	bounds := s.bounds
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if s.cfg.Accounts != nil {
		s.helpers.Go(s.followAccounts)
	}
	errs := make(chan error, len(bounds)) // one per listener
	for _, b := range bounds {
		s.log.Info("listening", "listener", b.Name, "address", b.ln.Addr().String())
		go func() { errs <- s.accept(b) }()
	}
	var err error
	for range bounds {
		if e := <-errs; e != nil {
			err = errors.Join(err, e)
			s.Close()
		}
	}
	<-s.done
	s.conns.Wait()
	s.helpers.Wait()
	return errors.Join(err, ctx.Err())
}

func (s *Server) accept(b *bound) error {
	pace := pacer{rate: float64(s.cfg.AcceptRate)}
	for {
		if d := pace.wait(time.Now()); d > 0 && !s.pause(d) {
			return nil
		}
		nc, err := b.ln.Accept()
		if err != nil {
			if s.isStopped() {
				return nil
			}
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				s.limiter.warn(s.log, "connection not accepted", "listener", b.Name, "err", err)
				if s.pause(acceptPause) {
					continue
				}
				return nil
			}
			return fmt.Errorf("kafka: listener %q: %w", b.Name, err)
		}
		if b.TLS != nil {
			nc = tls.Server(nc, b.TLS)
		}
		s.start(newConn(s, b, nc))
	}
}

// start runs a connection, or closes it if there is no room for it.
func (s *Server) start(c *conn) {
	s.mu.Lock()
	stopped := s.stopped
	var full error
	if !stopped {
		full = s.door.enter(c, &s.cfg)
	}
	ok := !stopped && full == nil
	if ok {
		s.stats.accepted.Add(1)
		s.open[c] = struct{}{}
		s.conns.Add(1)
	}
	s.mu.Unlock()
	if !ok {
		if !stopped { // said before the client can see the end
			s.stats.refused.Add(1)
			s.limiter.warn(s.log, "connection refused: too many are open", "listener", c.at.Name, "peer", c.nc.RemoteAddr().String(), "err", full)
		}
		c.cancel()
		c.nc.Close()
		return
	}
	go func() {
		defer s.conns.Done()
		c.run()
		s.mu.Lock()
		delete(s.open, c)
		s.door.leave(c)
		s.mu.Unlock()
	}()
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// stop closes the listeners and gives the connections that are open.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, b := range s.bounds {
		b.ln.Close() // only the first close of a listener does something
	}
	return slices.Collect(maps.Keys(s.open))
}

// connections gives those that are open now.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// Shutdown stops taking connections and requests, answers those in flight
// (fetches that wait answer at once), and closes. When ctx is done first it
// closes hard and gives the cause.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stop() {
		c.drain()
	}
	ended := make(chan struct{})
	go func() { s.conns.Wait(); close(ended) }()
	select {
	case <-ended:
		return s.Close()
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), s.Close())
	}
}

// Close closes listeners and connections at once and waits for them to end.
// What was in flight may or may not have happened.
func (s *Server) Close() error {
	for _, c := range s.stop() {
		c.nc.Close() // first, so that no client is told that its request was given up; there is nobody to tell about an error
		c.cancel()
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.conns.Wait()
	s.rooms.close()
	return nil
}
