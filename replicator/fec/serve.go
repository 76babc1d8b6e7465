package fec

import (
	"encoding/binary"
	"errors"
	"time"
)

// serve sends what is due on a path, and says when to look again.
func (s *Socket) serve(p *path, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == pathOff || len(p.sessions) == 0 {
		return 0
	}
	n := p.sessions[0]
	if p.state == pathAsking {
		if wait := p.asked.Add(p.patience()).Sub(now); wait > 0 {
			return wait
		}
		p.asked = now
		p.asks++
		s.ask(n)
		return p.patience()
	}
	if !p.unheard.IsZero() && now.Sub(p.unheard) > silence {
		p.proven = false
		s.become(p, pathAsking, now)
		return tick
	}
	again := s.parity(p, n, now)
	switch {
	case !again.IsZero():
		return max(tick, again.Sub(now))
	case !p.unheard.IsZero():
		return max(tick, p.unheard.Add(silence+tick).Sub(now))
	}
	return 0
}

// ask asks the peer of a session. The caller holds the path's mu.
func (s *Socket) ask(n *Session) {
	n.number++
	ask := n.messages.appendMessage(nil, typeAsk, n.id, &message{number: n.number}, Overhead+max(n.path.largest, leastPacket))
	_ = s.write(ask, n.path.oob, n.path.to) // one that is lost is sent again
}

// askEarly asks for a session before its path is to be corrected, and says when to look
// again.
func (s *Socket) askEarly(n *Session, now time.Time) time.Duration {
	if !n.asking.Load() {
		return 0
	}
	p := n.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.closed || n.early == earlyAsks || p.proven || p.state != pathOff {
		n.asking.Store(false)
		return 0
	}
	if n.early > 0 {
		if wait := n.earlyAt.Add(earlyPause << (n.early - 1)).Sub(now); wait > 0 {
			return wait
		}
	}
	n.early, n.earlyAt = n.early+1, now
	s.ask(n)
	return earlyPause << (n.early - 1)
}

// patience is the time between two asks: a peer that does not answer is asked less and
// less. The caller holds mu.
func (p *path) patience() time.Duration { return min(askEvery<<min(p.asks, 10), leastAsks) }

// leastPacket is as long as QUIC's packets are on every path.
const leastPacket = 1280

// parity sends all that is due, and says when more is. The caller holds p.mu.
func (s *Socket) parity(p *path, n *Session, now time.Time) time.Time {
	for {
		b, again := n.encoder.next(now)
		if b == nil {
			return again
		}
		_ = s.write(b, p.oob, p.to) // it is lost, then
	}
}

// longHeader is set in the first byte of the packets of QUIC's handshakes (RFC 9000,
// section 17.2).
const longHeader = 0x80

// quicBit is set in the first byte of all packets of QUIC (RFC 9000, section 17).
const quicBit = 0x40

// send wraps one QUIC packet, and sends what parity is due after it. It reports false
// if the packet is to be sent as it is. oob belongs to it.
func (s *Socket) send(p *path, packet, oob []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.largest = max(p.largest, min(len(packet), maxPacket))
	if p.oob = append(p.oob[:0], oob...); p.state != pathCorrect || len(packet) > maxPacket || len(packet) == 0 {
		return false, nil
	}
	n := p.sessions[0]
	now := time.Now()
	if p.unheard.IsZero() {
		p.unheard = now
	} else if packet[0]&longHeader != 0 && now.Sub(p.unheard) > doubt {
		return false, nil // of a handshake, maybe because the peer was restarted
	}
	idle := n.encoder.count == 0 && len(n.encoder.pending) == 0
	err := s.write(n.encoder.add(now, packet), oob, p.to)
	if errors.Is(err, errTooLong) {
		p.proven = false
		s.become(p, pathAsking, now) // the path got narrower
		return false, nil
	}
	if again := s.parity(p, n, now); idle && !again.IsZero() {
		s.poke()
	}
	return true, err
}

// report tells a peer what came from it, if that is due, and says when to look again.
func (s *Socket) report(n *Session, now time.Time) time.Duration {
	n.mu.Lock()
	if !n.due {
		n.mu.Unlock()
		return 0
	}
	if wait := n.told.Add(reportEvery).Sub(now); wait > 0 {
		n.mu.Unlock()
		return wait
	}
	n.due, n.told = false, now
	m := message{Counts: n.decoder.counts}
	n.mu.Unlock()
	p := n.path
	p.mu.Lock()
	defer p.mu.Unlock()
	n.number++
	m.number = n.number
	_ = s.write(n.messages.appendMessage(nil, typeReport, n.id, &m, 0), p.oob, p.to)
	return 0
}

// receive takes a datagram for which isPacket holds: it gives what QUIC gets in its
// place, part of the datagram, and hands over what was recovered besides, valid until
// recovered returns.
func (s *Socket) receive(datagram []byte, recovered func(packet []byte)) []byte {
	id, ok := sessionOf(datagram)
	if !ok {
		return nil
	}
	n := (*s.sessions.Load())[id]
	if n == nil {
		return stray(datagram)
	}
	switch datagram[0] {
	case typeReport:
		s.reported(n, datagram)
		return nil
	case typeAsk:
		n.asked(datagram)
		s.poke()
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var packet []byte
	var g *group
	if datagram[0] == typeData {
		packet, g, ok = n.decoder.data(datagram)
	} else {
		g, ok = n.decoder.parity(datagram)
	}
	if !ok {
		return nil
	}
	if !n.due {
		n.due = true
		s.poke()
	}
	if g != nil {
		n.decoder.recover(g, recovered)
	}
	return packet
}

// stray gives the QUIC packet in a datagram of no session: it is as good as one that came
// bare, and if it is of a connection of this process's former life, QUIC tells the peer at
// once that it is over (RFC 9000, section 10.3).
func stray(datagram []byte) []byte {
	if datagram[0] != typeData || len(datagram) <= Overhead {
		return nil
	}
	shard := datagram[headerSize : len(datagram)-tagSize]
	packet := shard[lengthSize:]
	if int(binary.BigEndian.Uint16(shard)) != len(packet) || packet[0]&quicBit == 0 {
		return nil
	}
	return packet
}

// asked takes an ask in: a report answers it.
func (n *Session) asked(datagram []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m, err := n.inbox.openMessage(datagram)
	if err != nil || m.number <= n.lastAsk {
		return
	}
	n.lastAsk, n.due = m.number, true
}

// reported takes a report in.
func (s *Socket) reported(n *Session, datagram []byte) {
	n.mu.Lock()
	m, err := n.inbox.openMessage(datagram)
	if err != nil || m.number <= n.lastTold {
		n.mu.Unlock()
		return
	}
	n.lastTold = m.number
	n.mu.Unlock()
	now := time.Now()
	p := n.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.closed {
		return
	}
	n.reported = m
	if n.early > 0 && p.state == pathOff {
		p.proven = true
		return
	}
	if len(p.sessions) == 0 || p.sessions[0] != n {
		return
	}
	p.unheard, p.proven = time.Time{}, true
	if early := n.early > 0 && p.asks == 0; p.state == pathAsking && (early || !p.asked.Before(p.since)) {
		s.become(p, pathCorrect, now)
	}
}
