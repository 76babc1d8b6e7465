package fec

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Socket is a UDP socket whose packets to and from peers with a [Session] may be
// corrected. All others pass untouched.
type Socket struct {
	raw    net.PacketConn
	conn   net.PacketConn // for QUIC
	wake   chan struct{}  // capacity 1: a path or a session has something to do
	budget Budget

	active   atomic.Int32 // paths that are not off
	paths    atomic.Pointer[map[netip.AddrPort]*path]
	sessions atomic.Pointer[map[uint32]*Session]

	mu        sync.Mutex // of changes to these
	lingering []lingering
}

// lingering is a closed session whose packets are still under way.
type lingering struct {
	session *Session
	until   time.Time
}

// Limits of a socket.
const (
	// MaxSessions is how many sessions a socket has at most; further ones get none.
	MaxSessions = 4096
	// lingerFor is how long a closed session's packets are understood: until the peer
	// has noticed.
	lingerFor = 5 * time.Second
	// rememberFor is how long it is known what was measured of a path without sessions.
	rememberFor = 5 * time.Minute
)

// NewSocket wraps a socket. It does not close it.
func NewSocket(raw net.PacketConn) *Socket {
	s := &Socket{raw: raw, wake: make(chan struct{}, 1)}
	s.paths.Store(&map[netip.AddrPort]*path{})
	s.sessions.Store(&map[uint32]*Session{})
	s.conn = newConn(s)
	return s
}

// PacketConn is what QUIC reads and writes.
func (s *Socket) PacketConn() net.PacketConn { return s.conn }

var errSession = errors.New("fec: no session: an address without a port, a secret too short, or too many sessions")

// Attach makes a session for a connection whose peer is known to be who it says.
// secret is SecretSize bytes that both ends have and nobody else, and dialled says on
// which end this is. What the peer sends is understood from now on; nothing is sent
// before [Session.Begin].
func (s *Socket) Attach(remote net.Addr, secret []byte, dialled bool) (*Session, error) {
	addr, ok := addrOf(remote)
	if !ok || len(secret) < SecretSize {
		return nil, errSession
	}
	out, in := secret[:secretSize], secret[secretSize:2*secretSize]
	if !dialled {
		out, in = in, out
	}
	n := &Session{socket: s, id: uint24(secret[2*secretSize:])}
	for _, k := range []struct {
		to     **key
		secret []byte
	}{{&n.encoder.key, out}, {&n.messages, out}, {&n.decoder.key, in}, {&n.inbox, in}} {
		var err error
		if *k.to, err = newKey(k.secret); err != nil {
			return nil, err
		}
	}
	n.encoder.session, n.decoder.budget = n.id, &s.budget
	s.mu.Lock()
	defer s.mu.Unlock()
	sessions := *s.sessions.Load()
	if len(sessions) >= MaxSessions || sessions[n.id] != nil {
		return nil, errSession
	}
	sessions = maps.Clone(sessions)
	sessions[n.id] = n
	s.sessions.Store(&sessions)
	paths := *s.paths.Load()
	p := paths[addr]
	if p == nil {
		p = &path{to: remote}
		paths = maps.Clone(paths)
		paths[addr] = p
		s.paths.Store(&paths)
	}
	n.path, p.left = p, time.Time{}
	p.attached++
	return n, nil
}

// addrOf gives an address as a key of maps.
func addrOf(a net.Addr) (netip.AddrPort, bool) {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	ap := u.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), true
}

func (s *Socket) detach(n *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, came := n.path, n.counts()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.closed {
		return
	}
	n.closed = true
	if slices.Contains(p.sessions, n) {
		p.came = p.came.plus(came)
	}
	first := len(p.sessions) > 0 && p.sessions[0] == n
	p.sessions = slices.DeleteFunc(p.sessions, func(o *Session) bool { return o == n })
	p.behind, p.gone = p.behind.plus(n.encoder.stats), p.gone.plus(n.reported.Counts)
	s.lingering = append(s.lingering, lingering{n, time.Now().Add(lingerFor)})
	now := time.Now()
	switch {
	case len(p.sessions) == 0:
		s.become(p, pathOff, now)
	case first && p.state == pathCorrect:
		p.take()
	}
	if p.attached--; p.attached == 0 {
		p.left = now
		s.forget(now)
	}
	s.poke()
}

// forget drops paths that nobody used for a while: until then a link that comes back
// is corrected from its start. The caller holds mu.
func (s *Socket) forget(now time.Time) {
	paths := maps.Clone(*s.paths.Load())
	maps.DeleteFunc(paths, func(_ netip.AddrPort, p *path) bool {
		return !p.left.IsZero() && now.Sub(p.left) >= rememberFor
	})
	s.paths.Store(&paths)
}

// poke has Run look.
func (s *Socket) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// steer brings a path's state in line with what its adaptor wants. The caller holds p.mu.
func (s *Socket) steer(p *path, now time.Time) {
	switch wants := !p.code.Off() && len(p.sessions) > 0; {
	case !wants:
		s.become(p, pathOff, now)
	case p.state == pathOff && p.proven:
		s.become(p, pathCorrect, now)
	case p.state == pathOff:
		s.become(p, pathAsking, now)
	case p.state == pathCorrect:
		p.sessions[0].encoder.code = p.code
	}
}

// become changes a path's state. The caller holds p.mu.
func (s *Socket) become(p *path, state pathState, now time.Time) {
	if p.state == state {
		return
	}
	switch {
	case p.state == pathOff:
		s.active.Add(1)
	case state == pathOff:
		s.active.Add(-1)
	}
	p.state, p.since = state, now
	if state == pathCorrect {
		p.take()
		p.had, p.asks = p.reports(), 0
	}
	s.poke()
}

// take has a path's first session send. The caller holds p.mu.
func (p *path) take() {
	n := p.sessions[0]
	n.encoder.code, n.early = p.code, 0
	n.asking.Store(false)
	p.unheard = time.Time{}
}

// pathOf finds the path to an address.
func (s *Socket) pathOf(to net.Addr) *path {
	addr, ok := addrOf(to)
	if !ok {
		return nil
	}
	return (*s.paths.Load())[addr]
}

// tick is the time between two looks at what is due, while anything may be.
const tick = time.Millisecond

// Run sends parity that no packets follow, asks and reports, until the context ends.
// It may be called once.
func (s *Socket) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer s.end()
	for {
		if next := s.work(time.Now()); next > 0 {
			timer.Reset(next)
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.wake:
			// What comes within a tick is done at once.
			timer.Reset(tick)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
			}
		case <-timer.C:
		}
	}
}

// end closes all sessions.
func (s *Socket) end() {
	for _, n := range *s.sessions.Load() {
		s.detach(n)
	}
	s.bury(time.Now().Add(lingerFor))
}

// work does what is due, and says when to look again: 0 if nothing is to be done
// before the next wake.
func (s *Socket) work(now time.Time) time.Duration {
	next := s.bury(now)
	sooner := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	if s.active.Load() > 0 {
		for _, p := range *s.paths.Load() {
			sooner(s.serve(p, now))
		}
	}
	for _, n := range *s.sessions.Load() {
		sooner(s.askEarly(n, now))
		sooner(s.report(n, now))
	}
	return next
}

// bury forgets sessions that were closed long enough ago.
func (s *Socket) bury(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lingering) == 0 {
		return 0
	}
	n := 0
	for n < len(s.lingering) && !now.Before(s.lingering[n].until) {
		n++
	}
	if n > 0 {
		sessions := maps.Clone(*s.sessions.Load())
		for _, l := range s.lingering[:n] {
			delete(sessions, l.session.id)
			l.session.mu.Lock()
			l.session.decoder.close()
			l.session.mu.Unlock()
		}
		s.sessions.Store(&sessions)
		s.lingering = slices.Clone(s.lingering[n:])
	}
	if len(s.lingering) == 0 {
		return 0
	}
	return s.lingering[0].until.Sub(now)
}
