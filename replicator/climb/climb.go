package climb

import "time"

// Sample says how the path did since the last one.
type Sample struct {
	At      time.Time
	Bytes   uint64        // that the connections took
	Blocked float64       // part of the time that somebody waited for them to take more: 0 to 1, or above if several did
	Open    int           // connections in use
	RTT     time.Duration // smoothed, of the connections in use
	Least   time.Duration // the least round trip seen on this path
	Loss    float64       // part of the packets that were lost

	// Corrected: lost packets come back before connections notice. Then a new one gets
	// faster for some seconds.
	Corrected bool
}

const (
	// limitedFrom and calmBelow bound Blocked: from the one on the path limits what is
	// sent, below the other it has room. Between them nothing is changed.
	limitedFrom = 0.5
	calmBelow   = 0.1
	// calmFor is how long a path has room before connections are given back, a half
	// each calmStep.
	calmFor     = 15 * time.Second
	calmForMost = 10 * time.Minute
	calmStep    = 5 * time.Second
	// gainKept is what a step up must bring to be kept, lossTaken what a step down may
	// cost. That they differ keeps it from going to and fro.
	gainKept  = 1.2
	lossTaken = 0.92
	// steep is the part of the ideal gain from which on the next step is a large one; it
	// is a very large one on a path that loses so much that one connection is lost on it.
	steep     = 0.6
	largeStep = 4
	giantStep = 8
	lossyFrom = 0.003
	// measure and settle are the least times; both grow with the round trip.
	measure  = time.Second
	settle   = 500 * time.Millisecond
	openWait = 6 * time.Second // until connections that were asked for are open
	// upPause is until a step up that brought nothing is tried again; it doubles.
	upPause     = 20 * time.Second
	upPauseMost = 10 * time.Minute
	// downPause is between two tries with fewer.
	downPause    = 2 * time.Minute
	downAgain    = 10 * time.Second
	nearRTT      = 2 * time.Millisecond
	nearLoss     = 0.005
	queueSlack   = 10 * time.Millisecond
	changedBy    = 2.0 // another path: what was learned of it is void
	queuedBefore = 2   // measurements in a row that show a full queue before a step down
	// several is how many connections a path has at least where much is in flight while it
	// limits what is sent, and the round trip is severalTrip or more: from severalFrom bytes
	// on at once, from leastFrom where a queue has been full for fullTimes measurements, since others may
	// have the rest. Below fewFrom they are not wanted any more: with a few packets in flight
	// each of them loses many. With leastFrom at a quarter of fewFrom it is not so that of two
	// links one keeps several and the other, which has a fifth of the path then, one.
	several     = 4
	severalFrom = 80 << 10
	fewFrom     = 48 << 10
	leastFrom   = fewFrom / several
	fullTimes   = 4
	severalTrip = 10 * time.Millisecond
	// fullFor is for how long a queue that was full counts: it empties with each loss.
	fullFor = 10 * time.Second
	// growing is by how much more than in the measurement before a corrected path takes
	// whose connections are still getting faster: then more are not tried yet.
	growing = 1.3
)

type phase uint8

const (
	steady phase = iota
	up
	down
)

// Climber is the state of one direction of a link.
type Climber struct {
	most int
	n    int // connections that it asks for
	keep int // that it asks for at least
	hint int // how many were good before, 0: not known
	base int // that the path has while it limits what is sent, for fairness: 1 or several

	phase  phase
	before int     // connections before the try
	rate   float64 // bytes per second then; in steady, of the last measurement
	ref    float64 // rate when the last step up was given back
	step   int     // factor of the next step up
	queued int
	fullAt time.Time // when a queue was last full
	fulls  int       // measurements that said so, less those that did not

	nextBase  time.Time // when several may be had again
	basePause time.Duration

	corrected       bool
	changed         time.Time // when n last changed, or limits began
	from            time.Time // begin of the measurement, zero: not begun
	bytes           uint64
	last            time.Time
	nextUp          time.Time
	nextDown        time.Time
	pause           time.Duration
	calmSince       time.Time // zero: not calm
	calmWait        time.Duration
	steppedFromCalm time.Time
}

// New begins with one connection, of at most most. hint is how many were good when the
// path was last used, 0 if that is not known: then the first step goes there.
func New(most, hint int) *Climber {
	return &Climber{most: max(1, most), n: 1, base: 1, hint: min(hint, most), step: 2, pause: upPause, basePause: upPause, calmWait: calmFor}
}

// Wanted gives the number of connections.
func (c *Climber) Wanted() int { return c.n }

// Limit changes how many there may be at most.
func (c *Climber) Limit(most int) {
	c.most = max(1, most)
	c.base = min(c.base, c.most)
	if c.n > c.most {
		c.give(c.most, c.last)
	}
}

// Keep has it ask for at least n connections, which are wanted for other reasons than speed:
// from there it climbs.
func (c *Climber) Keep(n int) {
	c.keep = min(max(1, n), c.most)
	if c.n < c.keep {
		c.phase, c.ref = steady, 0
		c.set(c.keep, c.last)
	}
}

// Step takes a sample and gives the number of connections wanted.
func (c *Climber) Step(s Sample) int {
	if c.last.IsZero() {
		c.nextDown = s.At.Add(downPause)
	}
	took := s.At.Sub(c.last).Seconds()
	c.last = s.At
	if s.Corrected != c.corrected { // what was learned of the path is void
		c.corrected, c.ref, c.pause, c.nextUp, c.step = s.Corrected, 0, upPause, s.At, 2
		if !s.Corrected && s.Loss >= lossyFrom {
			c.step = giantStep
		}
	}
	switch {
	case s.Least > 0 && s.Least < nearRTT && s.RTT < 5*nearRTT && s.Loss < nearLoss:
		if c.n > 1 {
			c.give(1, s.At)
		}
		return c.n
	case s.Blocked < limitedFrom:
		c.from, c.base, c.fulls = time.Time{}, 1, 0
		c.room(s, float64(s.Bytes)/took)
		return c.n
	}
	c.calmSince = time.Time{}
	c.spreadOut(s, float64(s.Bytes)/took)
	c.limited(s)
	return c.n
}

// spreadOut has a path that holds much in flight use several connections at once.
func (c *Climber) spreadOut(s Sample, rate float64) {
	if s.Least < severalTrip {
		c.base = 1
	} else if rate*s.RTT.Seconds() >= severalFrom {
		c.widen(s.At)
	}
}

// widen has the path use several connections, unless that was too many a moment ago.
func (c *Climber) widen(now time.Time) {
	if c.base > 1 || now.Before(c.nextBase) {
		return
	}
	c.base = min(several, c.most)
	if c.n < c.base {
		c.phase = steady
		c.set(c.base, now)
	}
}

// share looks whether the path has room for several connections, after a measurement.
func (c *Climber) share(rate float64, full bool, s Sample) {
	if full {
		c.fulls, c.fullAt = min(c.fulls+1, fullTimes), s.At
	} else {
		c.fulls = max(0, c.fulls-1)
	}
	switch flight := rate * s.RTT.Seconds(); {
	case flight >= severalFrom:
		c.basePause = upPause
	case flight < fewFrom && c.base > 1:
		c.base, c.nextBase = 1, s.At.Add(c.basePause)
		c.basePause = min(2*c.basePause, upPauseMost)
	case flight >= leastFrom && c.fulls == fullTimes && s.Least >= severalTrip:
		c.widen(s.At)
	}
}

// room is called while the path takes all that there is, at a rate.
func (c *Climber) room(s Sample, rate float64) {
	if c.phase == up {
		if s.At.Sub(c.changed) < max(settle, 3*s.RTT) {
			return
		}
		if rate < c.rate { // there is less to send: not known whether they bring anything
			c.n = c.before
		} else {
			c.pause = upPause
		}
	}
	c.phase = steady
	if s.Blocked >= calmBelow {
		c.calmSince = time.Time{}
		return
	}
	c.calm(s.At)
}

// calm gives connections back that nobody needs.
func (c *Climber) calm(now time.Time) {
	if c.calmSince.IsZero() {
		c.calmSince = now
	}
	if c.n > 1 && now.Sub(c.calmSince) >= c.calmWait && now.Sub(c.changed) >= calmStep {
		c.hint = max(c.hint, c.n)
		c.give((c.n+1)/2, now)
		c.steppedFromCalm = now
	}
	if c.n == 1 && now.Sub(c.calmSince) >= calmForMost {
		c.calmWait = calmFor
	}
}

// limited measures while the path limits what is sent.
func (c *Climber) limited(s Sample) {
	if !c.steppedFromCalm.IsZero() { // that was one step too many
		if s.At.Sub(c.steppedFromCalm) < 2*calmFor {
			c.calmWait = min(2*c.calmWait, calmForMost)
			c.nextUp = s.At
		}
		c.steppedFromCalm = time.Time{}
	}
	waited := s.At.Sub(c.changed)
	if waited < max(settle, 3*s.RTT) || s.Open < c.n && waited < openWait {
		return
	}
	if c.from.IsZero() {
		c.from, c.bytes = s.At, 0
		return
	}
	c.bytes += s.Bytes
	took := s.At.Sub(c.from)
	if took < max(measure, 6*s.RTT) {
		return
	}
	rate := float64(c.bytes) / took.Seconds()
	c.from, c.bytes = s.At, 0
	full := s.RTT > s.Least+max(s.Least/4, queueSlack)
	c.share(rate, full, s)
	switch c.phase {
	case up:
		c.judgeUp(rate, full, s)
	case down:
		c.judgeDown(rate, s.At)
	case steady:
		if s.Corrected && rate > c.rate*growing {
			c.rate = rate
			return
		}
		if c.n <= c.base && s.Loss >= lossyFrom && c.ref == 0 {
			c.step = giantStep
		}
		c.decide(rate, full, s.At)
	}
}

// decide is what follows a measurement that compares nothing.
func (c *Climber) decide(rate float64, full bool, now time.Time) {
	c.rate = rate
	if c.ref > 0 && (rate > c.ref*changedBy || rate < c.ref/changedBy) {
		c.ref, c.pause, c.nextUp = 0, upPause, now
	}
	if !full {
		c.queued = 0
	} else if c.queued++; c.queued >= queuedBefore {
		c.queued = 0
		c.nextUp = now.Add(c.pause)
		if c.n > c.base {
			c.give(max(c.n-max(1, c.n/4), c.base), now)
		}
		return
	}
	switch {
	case now.Sub(c.fullAt) >= fullFor && c.n < c.most && !now.Before(c.nextUp):
		to := c.n * c.step
		if c.hint > c.n {
			to = c.hint
		}
		c.hint = 0
		c.try(up, min(to, c.most), now)
	case c.n > c.base && !now.Before(c.nextDown):
		c.try(down, max((c.n+1)/2, c.base), now)
	}
}

func (c *Climber) try(p phase, n int, now time.Time) {
	c.phase, c.before = p, c.n
	c.set(n, now)
}

// judgeUp keeps a step up if it brought enough.
func (c *Climber) judgeUp(rate float64, full bool, s Sample) {
	c.phase = steady
	ideal := float64(min(c.n, max(s.Open, 1))) / float64(c.before)
	gain := rate / max(c.rate, 1)
	if gain < min(gainKept, 1+(ideal-1)/2) || ideal <= 1 {
		c.step, c.ref = 2, c.rate
		c.nextUp = s.At.Add(c.pause)
		c.pause = min(2*c.pause, upPauseMost)
		c.set(c.before, s.At)
		return
	}
	if s.Open < c.n { // the peer takes no more
		c.n = max(s.Open, c.before)
	}
	c.step, c.pause, c.rate = 2, upPause, rate
	if gain >= 1+(ideal-1)*steep {
		c.step = largeStep
		if s.Loss >= lossyFrom {
			c.step = giantStep
		}
	}
	c.nextUp = s.At
	if full {
		c.nextUp = s.At.Add(c.pause)
	}
	c.nextDown = s.At.Add(downPause)
	if !s.Corrected {
		c.decide(rate, full, s.At) // the next step at once
	}
}

// judgeDown keeps a step down if it cost nothing.
func (c *Climber) judgeDown(rate float64, now time.Time) {
	c.phase = steady
	if rate < c.rate*lossTaken {
		c.nextDown = now.Add(downPause)
		c.set(c.before, now)
		return
	}
	c.rate = rate
	c.nextDown = now.Add(downAgain)
	c.nextUp = now.Add(c.pause)
}

// give goes back to fewer connections for good.
func (c *Climber) give(n int, now time.Time) {
	c.phase = steady
	c.set(n, now)
}

func (c *Climber) set(n int, now time.Time) {
	c.n, c.changed, c.from, c.bytes = max(n, min(c.keep, c.most)), now, time.Time{}, 0
}
