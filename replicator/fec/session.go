package fec

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Traffic is what the QUIC connections of a path counted, growing.
type Traffic struct {
	Sent, Lost    uint64 // packets
	RTT, LeastRTT time.Duration
}

// Session lets the packets of one QUIC connection's path be corrected, in both
// directions. It is safe for concurrent use.
type Session struct {
	socket *Socket
	path   *path
	id     uint32
	begun  bool // it may send; guarded by path.mu

	// Of the direction from here, guarded by path.mu.
	encoder  encoder
	messages *key
	number   uint64 // of the last message
	traffic  Traffic
	reported message // by the peer, last
	closed   bool
	early    int       // asks that went out before it was known whether to correct
	earlyAt  time.Time // the last of them

	// Of the direction to here.
	mu       sync.Mutex
	decoder  decoder
	inbox    *key   // of messages, in the same direction
	lastAsk  uint64 // number
	lastTold uint64 // number of the peer's last report
	due      bool   // something came that a report should tell
	told     time.Time

	asking atomic.Bool // see Ask
}

// path is one direction of the way to a peer's address: what is sent there.
type path struct {
	to net.Addr

	// Guarded by Socket.mu.
	attached int       // sessions, whether they began or not
	left     time.Time // when its last session ended, zero while it has any

	mu       sync.Mutex
	sessions []*Session // the newest first: its encoder is used
	adaptor  adaptor
	code     Code // that the adaptor wants
	state    pathState
	since    time.Time // of state
	asked    time.Time
	asks     int       // since the last answer
	unheard  time.Time // when the first packet went out after the last report, zero: none did
	oob      []byte    // of the last packet
	largest  int       // QUIC packet that was sent there
	proven   bool      // it carries these packets, as far as is known
	behind   Sent      // of encoders that ended
	gone     Counts    // of reports of sessions that ended
	came     Counts    // of what came to sessions that ended
	had      Counts    // of reports, at the last sample
	loss     float64   // that the adaptor last knew
}

// pathState says what is done with the packets of a path.
type pathState int

const (
	pathOff     pathState = iota // they pass untouched
	pathAsking                   // they do, until the peer answers
	pathCorrect                  // they are wrapped, and parity follows
)

// Times of a path.
const (
	askEvery    = 250 * time.Millisecond
	leastAsks   = 10 * time.Second // at least so often in the end
	reportEvery = 200 * time.Millisecond
	// silence is how long no report may come after a packet was sent; after doubt new
	// connections are not made to depend on it.
	silence = 2 * time.Second
	doubt   = 700 * time.Millisecond
	// earlyAsks is how often a session asks at most before anything is to be corrected, the
	// second time after earlyPause, then each time after twice that.
	earlyAsks  = 5
	earlyPause = 30 * time.Millisecond
)

// Ask has a path that is not known asked while hellos are still under way, so that it can
// be corrected as soon as the connection is used: a round trip earlier. A peer that does
// not know this yet, or never will, drops what comes.
func (s *Session) Ask() {
	s.asking.Store(true)
	s.socket.poke()
}

// Begin lets what is sent there be corrected; mode says who decides over the strength.
// The peer must have its session by now. A path that was corrected some minutes ago is
// again from now on; another is asked first.
func (s *Session) Begin(mode Mode) {
	p := s.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed || s.begun {
		return
	}
	s.begun = true
	p.sessions = slices.Insert(p.sessions, 0, s) // the peer may not know the others any more
	p.asks, p.asked = 0, time.Time{}
	if p.state == pathCorrect {
		p.take()
	}
	p.adaptor.mode = mode
	if !mode.Auto() {
		p.code = mode.code
	}
	s.socket.steer(p, time.Now())
}

// Observe tells what the path's connections counted. It is to be called about once a
// second.
func (s *Session) Observe(now time.Time, t Traffic) {
	p := s.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed || !s.begun {
		return
	}
	before := s.traffic
	s.traffic = t
	sample := Sample{Sent: t.Sent - min(t.Sent, before.Sent), Lost: t.Lost - min(t.Lost, before.Lost), RTT: t.RTT, LeastRTT: t.LeastRTT}
	if p.state == pathCorrect {
		if p.sessions[0] != s {
			return // reports tell of all connections of the path
		}
		now, had := p.reports(), p.had
		p.had = now
		sample.Sent = now.Expected - min(now.Expected, had.Expected)
		sample.Lost = now.Lost() - min(now.Lost(), had.Lost())
		sample.Recovered = now.Recovered - min(now.Recovered, had.Recovered)
		sample.Corrected = true
	}
	p.code = p.adaptor.observe(now, sample)
	p.loss = p.adaptor.loss()
	s.socket.steer(p, now)
}

// reports sums up what the peer reported. The caller holds mu.
func (p *path) reports() Counts {
	c := p.gone
	for _, s := range p.sessions {
		c = c.plus(s.reported.Counts)
	}
	return c
}

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Expected + d.Expected, c.Received + d.Received, c.Recovered + d.Recovered}
}

// Close ends the session. What the peer still sends on it is understood for some
// seconds.
func (s *Session) Close() { s.socket.detach(s) }

// Stats is what a path's correction does, of both directions.
type Stats struct {
	// Mode is what is configured, Code what is in force: off while packets pass untouched.
	Mode Mode
	Code Code
	// Loss is the share of packets that the path from here loses, as measured, without
	// what queues drop.
	Loss float64
	// Sent is what went out wrapped, PeerCounts what the peer reported of that, Counts
	// what came from the peer.
	Sent       Sent
	PeerCounts Counts
	Counts     Counts
}

// Stats tells about the path that the session shares with others to the same address.
func (s *Session) Stats() Stats {
	p := s.path
	p.mu.Lock()
	st := Stats{Mode: p.adaptor.mode, Loss: p.loss, Sent: p.behind, PeerCounts: p.reports(), Counts: p.came}
	if p.state == pathCorrect {
		st.Code = p.code
	}
	for _, s := range p.sessions {
		st.Sent = st.Sent.plus(s.encoder.stats)
	}
	sessions := slices.Clone(p.sessions)
	p.mu.Unlock()
	for _, s := range sessions { // never both locks
		st.Counts = st.Counts.plus(s.counts())
	}
	return st
}

// counts is of what came to the session.
func (s *Session) counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decoder.counts
}

func (a Sent) plus(b Sent) Sent {
	return Sent{a.Data + b.Data, a.DataBytes + b.DataBytes, a.Parity + b.Parity, a.ParityBytes + b.ParityBytes}
}
