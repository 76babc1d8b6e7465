package fec

import (
	"math"
	"time"
)

// When correction pays, and how much of it.
const (
	// halfLife is after how long a measured loss counts half.
	halfLife = 15 * time.Second
	// leastLost and leastLoss are how much must be lost before anything is done.
	leastLost = 3.5
	leastLoss = 2e-5
	// cleanLoss is below what a line counts as clean again; enoughSent is how many
	// packets must have shown that.
	cleanLoss  = 5e-6
	enoughSent = 100_000
	// mostLoss is above what no code helps.
	mostLoss = 0.25
	// leftOver is how many groups may stay short of packets: with one in 50,000 the
	// rate of RFC 9002's congestion control is not bound by them any more.
	leftOver = 2e-5
	// margin is by how much more loss than measured a code is made for.
	margin = 1.5
	// mostExtra bounds what is added when losses come in rows.
	mostExtra = 4
	// queueTime and queueShare: a round trip that is longer than the shortest one by
	// more than either is that of a queue.
	queueTime  = 10 * time.Millisecond
	queueShare = 4
	// queueAfter is for how long losses that are more than before are still those of a
	// queue that was full: reports of them come late.
	queueAfter = 3 * time.Second
	// One bad second is no bad line: of a sample no more counts than steepest times the
	// loss known so far, than steepest times leastKnown, or than the two before it had.
	steepest   = 3
	leastKnown = 0.005
	// expectedLost is how many packets a sample must be expected to have lost to show,
	// fewerSamples times in a row with a third of them at most, that fewer are by now.
	expectedLost = 5
	fewerSamples = 3
	// fullFor is after how long behind a full queue correction ends.
	fullFor = 5 * time.Second
	// deepFor is after how long behind a queue that drops nothing more than the line
	// does correction ends: the line is full, and what is added takes the data's place.
	deepFor = 10 * time.Second
	// firstBan and lastBan are how long correction stays off after it did harm.
	firstBan = 15 * time.Second
	lastBan  = 5 * time.Minute
	// It was a mistake, since QUIC counts packets as lost that were only late, if under
	// correction none was lost of mistakenSent, or of so many that mistakenLost had to be.
	mistakenSent = 100_000
	mistakenLost = 12
	// extraTime is how long without a left-over loss lowers extra.
	extraTime = 20 * time.Second
	// shortTrip is a round trip below which correction brings nothing: QUIC itself is
	// quick, and packets are rather late, or dropped by a machine that is too busy.
	shortTrip = 5 * time.Millisecond
	// A path of which nothing is known, and whose shortest round trip is at least
	// trialRTT, is corrected until trialSent packets lost none, and at most until
	// trialMost did: a connection that loses packets while it finds its speed does not
	// find it again for minutes.
	trialRTT  = 10 * time.Millisecond
	trialSent = 3000
	trialMost = 20_000
	// anotherPath is how many times longer or shorter the shortest round trip is on a
	// path of which nothing is known.
	anotherPath = 2
)

// trialCode brings most of what a bad line loses back.
var trialCode = Code{Data: 10, Parity: 3}

// Sample is what was seen of one direction of a path since the sample before.
type Sample struct {
	Sent, Lost uint64        // packets, without what correction brought back
	Recovered  uint64        // of Lost, packets that it did bring back
	Corrected  bool          // correction was in force
	RTT        time.Duration // smoothed
	LeastRTT   time.Duration // that the path ever had
}

// share is the part of the packets that was lost.
func (s *Sample) share() float64 { return float64(s.Lost) / float64(max(s.Sent, 1)) }

// adaptor decides over the strength of one direction. It is pure: time comes in with
// the samples.
//
//	        losses, no queue
//	 new  ───────────────────┐
//	  │ enough without       ▼
//	clean ───────────────────► correcting
//	  ▲  ◄───────────────────      │
//	  │     no losses any more     │ queue is full, or losses grow with the
//	  │                            │ correction, or it brings back too little,
//	  │                            │ or the line is full of data and parity
//	  └──────── banned ◄───────────┘
//	  after a time
type adaptor struct {
	mode Mode

	at         time.Time // of the last sample
	sent, lost float64   // decaying sums
	tried      float64   // of lost, what was lost under correction, since it was turned on
	saved      float64   // of tried, what was recovered
	seen       uint64    // packets sent under correction since it was turned on
	on         bool
	atStart    float64 // loss when it was turned on
	full       time.Time
	deep       time.Time // since when the round trip is that of a queue
	queued     time.Time // when the round trip was last that of a queue
	fewer      int       // samples in a row that lost far less than expected
	shares     [2]float64
	worse      int // samples in a row with more loss than before
	extra      int
	extraAt    time.Time
	banned     time.Time // until then it stays off
	ban        time.Duration

	least  time.Duration // shortest round trip of the path that the next two are of
	tested float64       // packets sent
	hurt   float64       // of these, lost
}

// loss is the share of packets that the path loses, without what full queues do.
func (a *adaptor) loss() float64 {
	if a.sent == 0 {
		return 0
	}
	return a.lost / a.sent
}

// observe takes a sample and gives the strength for what comes next.
func (a *adaptor) observe(now time.Time, s Sample) Code {
	queue := s.RTT > s.LeastRTT+max(queueTime, s.LeastRTT/queueShare)
	if longer, shorter := max(a.least, s.LeastRTT), min(a.least, s.LeastRTT); longer >= trialRTT && longer > anotherPath*shorter {
		a.least, a.tested, a.hurt = s.LeastRTT, 0, 0
	}
	a.count(now, s, queue)
	if !a.mode.Auto() {
		return a.mode.code
	}
	switch p := a.loss(); {
	case a.filled(now, s, queue):
		a.stop(now)
	case a.on:
		a.judge(now, s, queue)
	case now.Before(a.banned) || queue || s.LeastRTT < shortTrip:
	case a.lost >= leastLost && p >= leastLoss && p <= mostLoss:
		a.on, a.atStart, a.worse, a.extra, a.extraAt = true, max(p, s.share()), 0, 0, now
		a.full, a.tried, a.saved, a.seen = time.Time{}, 0, 0, 0
	}
	return a.code()
}

// filled reports whether correction, on or on trial, has been behind a queue for so long
// that the line must be full.
func (a *adaptor) filled(now time.Time, s Sample, queue bool) bool {
	switch {
	case !queue || !s.Corrected:
		a.deep = time.Time{}
	case a.deep.IsZero():
		a.deep = now
	}
	return !a.deep.IsZero() && now.Sub(a.deep) >= deepFor
}

// trying reports whether the path is new.
func (a *adaptor) trying() bool {
	return a.least >= trialRTT && a.at.After(a.banned) && (a.tested < trialSent || a.hurt >= 1 && a.tested < trialMost)
}

func (a *adaptor) count(now time.Time, s Sample, queue bool) {
	if !a.at.IsZero() {
		keep := math.Exp2(-now.Sub(a.at).Seconds() / halfLife.Seconds())
		a.sent, a.lost = a.sent*keep, a.lost*keep
		a.tried, a.saved = a.tried*keep, a.saved*keep
	}
	a.at = now
	if queue {
		a.queued = now
	}
	share := s.share()
	if !a.queued.IsZero() && now.Sub(a.queued) < queueAfter && share > margin*a.loss() {
		return // the queue's losses, of which the sender must hear
	}
	if expected := a.loss() * float64(s.Sent); expected >= expectedLost {
		if a.fewer++; float64(s.Lost) > expected/3 {
			a.fewer = 0
		} else if a.fewer >= fewerSamples {
			a.lost /= 2
		}
	}
	most := max(steepest*max(a.loss(), leastKnown), min(a.shares[0], a.shares[1]))
	a.shares = [2]float64{share, a.shares[0]}
	lost := min(share, most) * float64(s.Sent)
	a.sent, a.lost = a.sent+float64(s.Sent), a.lost+lost
	a.tested, a.hurt = a.tested+float64(s.Sent), a.hurt+float64(s.Lost)
	if s.Corrected {
		a.tried, a.saved, a.seen = a.tried+float64(s.Lost), a.saved+float64(s.Recovered), a.seen+s.Sent
	}
}

// judge looks whether correction that is on still helps.
func (a *adaptor) judge(now time.Time, s Sample, queue bool) {
	if !s.Corrected {
		return // the peer has not answered yet
	}
	share := s.share()
	switch {
	case !queue || share <= margin*a.loss():
		a.full = time.Time{}
	case a.full.IsZero():
		a.full = now
	case now.Sub(a.full) >= fullFor:
		a.stop(now)
		return
	}
	if s.Lost >= 10 && share > max(4*a.atStart, 0.08) {
		a.worse++
	} else if s.Sent > 0 {
		a.worse = 0
	}
	switch p := a.loss(); {
	case a.worse >= 3 || p > mostLoss:
		a.stop(now)
	case a.tried == 0 && (a.seen >= mistakenSent || a.loss()*float64(a.seen) >= mistakenLost):
		a.stop(now)
	case a.tried >= 50 && a.saved < a.tried/5:
		a.stop(now) // losses in long rows
	case p < cleanLoss && a.sent >= enoughSent:
		a.on, a.ban = false, 0
	default:
		a.follow(now, s)
	}
}

// follow adds to the code while more is lost than single losses explain.
func (a *adaptor) follow(now time.Time, s Sample) {
	left := float64(s.Lost) - float64(s.Recovered)
	switch {
	case s.Sent >= 500 && left > 1 && left/float64(s.Sent) > 10*leftOver && now.Sub(a.extraAt) >= time.Second:
		a.extra, a.extraAt = min(a.extra+1, mostExtra), now
	case a.extra > 0 && now.Sub(a.extraAt) >= extraTime:
		a.extra, a.extraAt = a.extra-1, now
	}
}

// stop turns correction off for a time that doubles.
func (a *adaptor) stop(now time.Time) {
	a.ban = min(max(2*a.ban, firstBan), lastBan)
	a.on, a.banned, a.deep = false, now.Add(a.ban), time.Time{}
	a.sent, a.lost = 0, 0
}

func (a *adaptor) code() Code {
	switch {
	case !a.on && a.trying():
		return trialCode
	case !a.on:
		return Code{}
	}
	c := CodeFor(a.loss())
	c.Parity = min(c.Parity+a.extra, c.Data)
	return c
}

// CodeFor gives the weakest code that leaves hardly any group short of packets at a
// share of lost packets. Rarer losses have longer groups: the same protection for
// fewer bytes, while it still comes before QUIC misses the packet.
func CodeFor(loss float64) Code {
	if loss <= 0 {
		return Code{}
	}
	data := 20
	switch {
	case loss < 0.001:
		data = 32
	case loss > 0.05:
		data = 10
	}
	p := min(loss*margin, 0.5)
	for parity := 1; parity < data; parity++ {
		if tail(data+parity, parity, p) <= leftOver {
			return Code{Data: data, Parity: parity}
		}
	}
	return Code{Data: data, Parity: data}
}

// tail is the probability that more than k of n packets are lost, each with p.
func tail(n, k int, p float64) float64 {
	term := math.Pow(1-p, float64(n)) // of none
	sum := term
	for i := 1; i <= k; i++ {
		term *= float64(n-i+1) / float64(i) * p / (1 - p)
		sum += term
	}
	return max(0, 1-sum)
}
