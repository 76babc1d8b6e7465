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
	// fullFor is after how long behind a full queue correction ends.
	fullFor = 5 * time.Second
	// firstBan and lastBan are how long correction stays off after it did harm.
	firstBan = 15 * time.Second
	lastBan  = 5 * time.Minute
	// extraTime is how long without a left-over loss lowers extra.
	extraTime = 20 * time.Second
)

// Sample is what was seen of one direction of a path since the sample before.
type Sample struct {
	Sent, Lost uint64        // packets, without what correction brought back
	Recovered  uint64        // of Lost, packets that it did bring back
	RTT        time.Duration // smoothed
	LeastRTT   time.Duration // that the path ever had
}

// adaptor decides over the strength of one direction. It is pure: time comes in with
// the samples.
//
//	        losses, no queue
//	clean ───────────────────► correcting
//	  ▲  ◄───────────────────      │
//	  │     no losses any more     │ queue is full, or losses grow with the
//	  │                            │ correction, or it brings back too little
//	  └──────── banned ◄───────────┘
//	  after a time
type adaptor struct {
	mode Mode

	at         time.Time // of the last sample
	sent, lost float64   // decaying sums
	saved      float64   // of lost, what was recovered; only while on
	on         bool
	atStart    float64 // loss when it was turned on
	full       time.Time
	worse      int // samples in a row with more loss than before
	extra      int
	extraAt    time.Time
	banned     time.Time // until then it stays off
	ban        time.Duration
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
	a.count(now, s, queue)
	if !a.mode.Auto() {
		return a.mode.code
	}
	switch p := a.loss(); {
	case a.on:
		a.judge(now, s, queue)
	case now.Before(a.banned) || queue:
	case a.lost >= leastLost && p >= leastLoss && p <= mostLoss:
		a.on, a.atStart, a.worse, a.extra, a.extraAt, a.saved = true, p, 0, 0, now, 0
		a.full = time.Time{}
	}
	return a.code()
}

func (a *adaptor) count(now time.Time, s Sample, queue bool) {
	if !a.at.IsZero() {
		keep := math.Exp2(-now.Sub(a.at).Seconds() / halfLife.Seconds())
		a.sent, a.lost, a.saved = a.sent*keep, a.lost*keep, a.saved*keep
	}
	a.at = now
	share := float64(s.Lost) / float64(max(s.Sent, 1))
	if queue && share > margin*a.loss() {
		return // the queue's losses, of which the sender must hear
	}
	a.sent, a.lost, a.saved = a.sent+float64(s.Sent), a.lost+float64(s.Lost), a.saved+float64(s.Recovered)
}

// judge looks whether correction that is on still helps.
func (a *adaptor) judge(now time.Time, s Sample, queue bool) {
	share := float64(s.Lost) / float64(max(s.Sent, 1))
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
	case a.lost >= 50 && a.saved < a.lost/5:
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
	a.on, a.banned = false, now.Add(a.ban)
	a.sent, a.lost, a.saved = 0, 0, 0
}

func (a *adaptor) code() Code {
	if !a.on {
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
