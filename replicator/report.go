package replicator

import (
	"cmp"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Status gives a picture of all links, by name. It costs a look at each
// partition, and a read of one batch for each that has a backlog.
func (m *Manager) Status() Status {
	s := m.status()
	for _, l := range m.byName() {
		s.Links = append(s.Links, l.report(s.At))
	}
	return s
}

// status gives what Status says beside the links.
func (m *Manager) status() Status {
	s := Status{At: time.Now(), Region: m.cfg.Self.Name,
		SendBytesLimit: m.cfg.Limits.SendBudget, ReceiveBytesLimit: m.cfg.Limits.ReceiveBudget}
	for _, l := range m.byName() {
		s.SendBytes += l.send.inUse()
		s.ReceiveBytes += l.receive.inUse()
	}
	s.Origins = m.origins.report(m, s.At)
	return s
}

// byName gives the links.
func (m *Manager) byName() []*link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sorted()
}

// Origins is that part of [Manager.Status]: what several paths lead from.
func (m *Manager) Origins() []OriginStatus { return m.origins.report(m, time.Now()) }

func (l *link) report(now time.Time) LinkStatus {
	s := l.figures(now)
	if conn := l.connection(); conn != nil {
		s.Inbound = conn.inbound.report()
	}
	for _, f := range l.all() {
		s.Partitions = append(s.Partitions, f.report(now))
	}
	s.Sums = SumsOf(s.Partitions)
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic.String(), b.Topic.String()), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Origin, b.Origin))
	})
	return s
}

// connection gives the one that the link has, nil if none.
func (l *link) connection() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// figures gives what is to say of a link beside its partitions.
func (l *link) figures(now time.Time) LinkStatus {
	n := &l.counters
	s := LinkStatus{Peer: l.name, Number: l.number,
		ConnectionsLost: n.lostConnections.Load(), PaddingBytes: n.padding.Load(),
		DivergedTries: n.diverged.Load(),
		Rebuilds:      n.rebuilds.Load(), ConfirmedBytes: n.confirmedBytes.Load(),
		SentBytes: n.sentBytes.Load(), SentBatches: n.sentBatches.Load(),
		ReceivedBytes: n.receivedBytes.Load(), ReceivedBatches: n.receivedBatches.Load(),
		SentRecords: n.sentRecords.Load(), ReceivedRecords: n.receivedRecords.Load(), Rewinds: n.rewinds.Load()}
	l.mu.Lock()
	s.State, s.Since, s.Connects = l.health.state, l.health.since, l.health.connects
	if l.health.err != nil {
		s.LastError, s.LastErrorAt = l.health.err.Error(), l.health.errAt
	}
	s.Twice, s.Second = l.twice(now), l.second()
	s.Pauses, s.PeerPauses = l.pauses, l.theirPauses
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		s.Software = conn.software
		s.Heard = time.Unix(0, conn.heard.Load())
		s.Remote, s.Dialled = conn.qc.RemoteAddr().String(), conn.dialled
		var path pathFigures
		s.Connections, path = conn.pool.report()
		s.ConnectionsMost, s.Loss, s.Goodput = conn.pool.most, path.loss, path.goodput
		s.RTT = conn.qc.ConnectionStats().SmoothedRTT
		s.ClockOffset, s.ClockAt = conn.control.clockOffset()
		s.SendRate, s.ReceiveRate = conn.rates.get()
		s.Unmade = conn.settler.unmade()
		s.Correction = conn.correction()
	}
	l.sums(&s.Correction, conn != nil && conn.corrected != nil)
	return s
}

func (f *flow) report(now time.Time) PartitionStatus {
	f.mu.Lock()
	st, owesNothing := f.status, f.owesNothing()
	ledger := f.ledger
	f.mu.Unlock()
	s := PartitionStatus{Topic: f.source.topic, Partition: f.source.index, Life: f.source.life, Origin: f.source.origin, Forwarded: f.forwards(), State: st.state, Since: st.since,
		Confirmed: st.confirmed, ConfirmedAt: st.confirmedAt, Rebuilds: st.rebuilds, Apart: st.apart, Refused: st.refused, Sent: max(st.sent, st.confirmed)}
	s.Limited = f.isLimited(now)
	if st.err != nil {
		s.LastError, s.LastErrorAt = st.err.Error(), st.errAt
	}
	if st.state == SessionStandby {
		s.Standby = st.via
	}
	if st.leftOut != nil && s.State != SessionPaused {
		s.State, s.Since = SessionLeftOut, st.leftOut.since // also while it is tried again
	}
	log, ok := f.link.m.cfg.Region.State(f.source.ref)
	if !ok {
		return s
	}
	if f.forwards() { // own figures become those of the copy
		w, _ := markOf(&log, f.source.origin, f.source.life)
		log.OwnLast, log.OwnFloor, log.Flushed = w.Offset, rhumb.NoOffset, max(log.Flushed, w.Offset+1)
	}
	if past := f.source.closed; past != nil { // what lies behind it is another life's
		log.OwnLast, log.OwnFloor = min(log.OwnLast, past.Last), min(log.OwnFloor, past.Last)
	}
	log.OwnFloor = max(log.OwnFloor, f.source.from-1)
	s.End = endOf(f, &log, st.confirmed)
	if owesNothing {
		s.Lag = Lag{Known: true}
		return s
	}
	s.Lag = f.lag(&log, &st, ledger, now)
	if st.refused != nil && (s.State == SessionFlowing || s.State == SessionStalled) {
		s.State, s.Since = SessionRefused, st.refused.Since // it is just being tried again
	}
	if s.State == SessionIdle && s.Lag.Records > 0 {
		s.State = SessionFlowing // it grew a moment ago, and the session is about to see it
	}
	return s
}

// endOf is where ends what a flow has to bring. The destination is told of offsets
// behind the last own record, too, that copies have there, so it may confirm those: they
// are no less the end. What it confirmed beyond the log itself is not, since the log is
// an older one then, nor of a copy beyond what is here: another path was faster.
func endOf(f *flow, log *partitionState, confirmed rhumb.Offset) rhumb.Offset {
	if f.forwards() || f.source.closed != nil {
		return ownEnd(log)
	}
	return max(ownEnd(log), min(confirmed, log.Flushed-1))
}

// lag says how far the destination is behind what may leave the region.
func (f *flow) lag(log *partitionState, st *flowStatus, l *ledger, now time.Time) Lag {
	lag := Lag{Known: st.known || st.lacks || log.OwnLast == rhumb.NoOffset}
	end, after := ownEnd(log), max(st.confirmed, log.OwnFloor)
	if end <= after {
		return lag
	}
	read := after // up to here the figures of the ledger are exact
	oldest := int64(0)
	if l != nil {
		var last rhumb.Offset
		lag.Records, lag.Bytes, oldest, last = l.under()
		read = max(read, last)
	}
	if end > read {
		lag.Records += int64(end - read)
		if kept := int64(log.End - log.LogStart); kept > 0 {
			lag.Bytes += int64(float64(log.Bytes) * float64(end-read) / float64(kept))
		}
	}
	if oldest == 0 {
		oldest = f.oldestAfter(&f.status.oldest, after, log.Flushed)
	}
	lag.Age = age(oldest, now)
	if !lag.Known {
		lag.Least = f.leastLag(log, after, now)
	}
	return lag
}

// oldest remembers a look at the log.
type oldest struct {
	after rhumb.Offset
	at    int64 // append time of the first batch after it, ms since 1970; 0: not looked up
}

// age is how long ago a moment was, in ms since 1970; 0 for none.
func age(at int64, now time.Time) time.Duration {
	if at <= 0 {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(at)))
}

// oldestAfter gives the append time of the first own batch after an offset, in
// ms since 1970; 0 if there is none to be read now, when that was seen first if it never
// can be. It is remembered in seen until the
// offset moves.
func (f *flow) oldestAfter(seen *oldest, after, limit rhumb.Offset) int64 {
	f.mu.Lock()
	known, at := seen.after == after && seen.at > 0, seen.at
	f.mu.Unlock()
	if known {
		return at
	}
	log := sourceLog{flow: f}
	read := log.read
	if f.forwards() {
		read = newRelayLog(f).read
	}
	found, err := read(after+1, limit, 1)
	switch {
	case rhumb.KindOf(err) == rhumb.KindCorrupt:
		at = time.Now().UnixMilli() // it is older, but who knows by how much: its age grows from now on
	case err != nil || len(found) == 0:
		return 0
	default:
		at = found[0].Envelope.AppendTime
	}
	f.mu.Lock()
	*seen = oldest{after, at}
	f.mu.Unlock()
	return at
}

func (in *inbound) report() []InboundStatus {
	all := in.all()
	out := make([]InboundStatus, 0, len(all))
	for _, r := range all {
		r.mu.Lock()
		st, moved := r.machine.Status(), r.moved
		r.mu.Unlock()
		out = append(out, InboundStatus{Topic: r.open.Partition.Topic, Partition: r.open.Partition.Index, Origin: r.open.Region, Life: r.open.Life,
			Open: st.Open, Watermark: st.Watermark, Head: st.Head, Held: int64(st.Bytes), At: moved})
	}
	slices.SortFunc(out, func(a, b InboundStatus) int {
		return cmp.Or(cmp.Compare(a.Topic.String(), b.Topic.String()), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Origin, b.Origin))
	})
	return out
}
