package climb

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// path is a model of one: what it carries, and what one connection gets out of it.
type path struct {
	rtt      time.Duration
	capacity float64 // bytes per second
	single   float64 // what random loss leaves one connection
	loss     float64
	offered  float64       // what there is to send, bytes per second; 0: any amount
	queue    time.Duration // that the round trip grows by when capacity is reached
	refuses  int           // connections from this one on do not open; 0: none
	noise    float64
}

// run has a climber use the path for a while, two samples a second, and gives the mean
// rate and the number of connections at the end.
func (p *path) run(c *Climber, rnd *rand.Rand, now *time.Time, d time.Duration) (rate float64, n int) {
	const tick = 500 * time.Millisecond
	sum, ticks := 0.0, 0
	for end := now.Add(d); now.Before(end); *now = now.Add(tick) {
		open := c.Wanted()
		if p.refuses > 0 {
			open = min(open, p.refuses)
		}
		can := math.Min(p.capacity, p.single*float64(open)) * (1 + p.noise*(2*rnd.Float64()-1))
		s := Sample{At: *now, Open: open, RTT: p.rtt, Least: p.rtt, Loss: p.loss, Blocked: 0.9}
		if p.single*float64(open) >= p.capacity {
			s.RTT += p.queue
		}
		if p.offered > 0 && p.offered < can {
			s.Blocked = p.offered / can * 0.3
			can = p.offered
		}
		s.Bytes = uint64(can * tick.Seconds())
		sum, ticks = sum+can, ticks+1
		c.Step(s)
	}
	return sum / float64(ticks), c.Wanted()
}

func begin() (*rand.Rand, *time.Time) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return rand.New(rand.NewPCG(1, 2)), &now
}

// TestLossyPathGetsAll: where each connection brings as much as the first, it has all of
// them within half a minute, and holds them.
func TestLossyPathGetsAll(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 200 * time.Millisecond, capacity: 125e6, single: .1e6, loss: .01, noise: .15}
	c := New(64, 0)
	if _, n := p.run(c, rnd, now, 30*time.Second); n != 64 {
		t.Errorf("%d connections after 30 s", n)
	}
	if rate, _ := p.run(c, rnd, now, 10*time.Minute); rate < .9*6.4e6 {
		t.Errorf("%.0f bytes per second", rate)
	}
}

// TestHintIsTakenAtOnce: a link that comes back does not climb from the bottom.
func TestHintIsTakenAtOnce(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 200 * time.Millisecond, capacity: 125e6, single: .1e6, loss: .01, noise: .15}
	if _, n := p.run(New(64, 48), rnd, now, 4*time.Second); n != 48 {
		t.Errorf("%d connections after 4 s", n)
	}
}

// TestMoreThatBringNothingAreGivenBack: on a path that one connection fills, more than
// there are for the sake of others are open for a small part of the time only.
func TestMoreThatBringNothingAreGivenBack(t *testing.T) {
	for _, queue := range []time.Duration{0, 100 * time.Millisecond} {
		rnd, now := begin()
		p := path{rtt: 50 * time.Millisecond, capacity: 10e6, single: 10e6, noise: .08, queue: queue}
		c := New(64, 0)
		more, all := 0, 0
		for range 1200 {
			if _, n := p.run(c, rnd, now, 500*time.Millisecond); n > several {
				more++
			}
			all++
		}
		if more > all/10 {
			t.Errorf("queue %s: more than %d connections in %d of %d samples", queue, several, more, all)
		}
	}
}

// TestStopsWhereThePathIsFull: some connections fill the path; it settles near there.
func TestStopsWhereThePathIsFull(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 80 * time.Millisecond, capacity: 8e6, single: 1e6, loss: .001, noise: .05}
	c := New(64, 0)
	p.run(c, rnd, now, time.Minute)
	if rate, n := p.run(c, rnd, now, 5*time.Minute); n < 6 || n > 16 || rate < 7e6 {
		t.Errorf("%d connections, %.0f bytes per second", n, rate)
	}
}

// TestIdleKeepsOne, also if the path was full of them, and a trickle does not need more.
func TestIdleKeepsOne(t *testing.T) {
	for _, offered := range []float64{1, .05e6} {
		rnd, now := begin()
		p := path{rtt: 200 * time.Millisecond, capacity: 125e6, single: .1e6, loss: .01}
		c := New(64, 0)
		p.run(c, rnd, now, time.Minute)
		p.offered = offered
		if _, n := p.run(c, rnd, now, 2*time.Minute); n != 1 {
			t.Errorf("%.0f bytes per second: %d connections", offered, n)
		}
	}
}

// TestSteadyLoadKeepsWhatItNeeds: a load between two numbers does not go to and fro
// for ever.
func TestSteadyLoadKeepsWhatItNeeds(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 200 * time.Millisecond, capacity: 125e6, single: .1e6, loss: .01, offered: 2e6, noise: .05}
	c := New(64, 0)
	p.run(c, rnd, now, 10*time.Minute)
	short := 0
	for range 1200 {
		if rate, _ := p.run(c, rnd, now, 500*time.Millisecond); rate < 1.9e6 {
			short++
		}
	}
	if short > 120 {
		t.Errorf("too few connections in %d of 1200 samples", short)
	}
}

// TestNearPathKeepsOne: a clean short path is limited by something else.
func TestNearPathKeepsOne(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 300 * time.Microsecond, capacity: 1e9, single: .3e9, noise: .3}
	c := New(64, 0)
	for range 120 {
		if _, n := p.run(c, rnd, now, time.Second); n != 1 {
			t.Fatalf("%d connections", n)
		}
	}
}

// TestRefusingPeer: one that takes no more than some costs no more than a try now and then.
func TestRefusingPeer(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 200 * time.Millisecond, capacity: 125e6, single: .1e6, loss: .01, refuses: 5}
	c := New(64, 0)
	p.run(c, rnd, now, 2*time.Minute)
	if rate, _ := p.run(c, rnd, now, 10*time.Minute); rate < .9*.5e6 {
		t.Errorf("%.0f bytes per second", rate)
	}
}

// TestHealedPathGivesBack: when loss ends, few connections are enough again.
func TestHealedPathGivesBack(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 100 * time.Millisecond, capacity: 12e6, single: .3e6, loss: .01, noise: .05}
	c := New(64, 0)
	p.run(c, rnd, now, time.Minute)
	p.single, p.loss, p.queue = 12e6, 0, 80*time.Millisecond
	if _, n := p.run(c, rnd, now, 10*time.Minute); n > several {
		t.Errorf("%d connections", n)
	}
}

// TestTwoShareAFullPath: of two links on one bottleneck each gets its part, whoever came
// first.
func TestTwoShareAFullPath(t *testing.T) {
	rnd, now := begin()
	const capacity, single = 12.5e6, 1.5e6
	a, b := New(64, 0), New(64, 0)
	var sumA, sumB float64
	const tick = 500 * time.Millisecond
	for i := range 4800 {
		na, nb := float64(a.Wanted()), float64(b.Wanted())
		if i < 600 {
			nb = 0 // comes later
		}
		total := math.Min(capacity, single*(na+nb))
		rtt := 80 * time.Millisecond
		if single*(na+nb) >= capacity {
			rtt += 90 * time.Millisecond
		}
		noise := 1 + .1*(2*rnd.Float64()-1)
		ra, rb := total*na/(na+nb)*noise, total*nb/(na+nb)
		s := Sample{At: *now, RTT: rtt, Least: 80 * time.Millisecond, Blocked: .9, Loss: .001}
		s.Bytes, s.Open = uint64(ra*tick.Seconds()), int(na)
		a.Step(s)
		if nb > 0 {
			s.Bytes, s.Open = uint64(rb*tick.Seconds()), int(nb)
			b.Step(s)
		}
		if i >= 2400 {
			sumA, sumB = sumA+ra, sumB+rb
		}
		*now = now.Add(tick)
	}
	if r := sumA / sumB; r < .8 || r > 1.25 {
		t.Errorf("one has %.2f times the other's", r)
	}
}

// TestCorrectedConnectionsGetFasterAlone: while those that are corrected still get faster,
// no others are tried.
func TestCorrectedConnectionsGetFasterAlone(t *testing.T) {
	_, now := begin()
	c := New(64, 0)
	rate := .3e6
	for range 16 {
		*now = now.Add(500 * time.Millisecond)
		s := Sample{At: *now, Open: c.Wanted(), RTT: 200 * time.Millisecond, Least: 200 * time.Millisecond, Blocked: .9, Bytes: uint64(rate / 2), Corrected: true}
		if n := c.Step(s); n > several {
			t.Fatalf("%d connections at %.0f bytes per second", n, rate)
		}
		rate *= 1.3
	}
	for range 16 { // as fast as it gets
		*now = now.Add(500 * time.Millisecond)
		s := Sample{At: *now, Open: c.Wanted(), RTT: 200 * time.Millisecond, Least: 200 * time.Millisecond, Blocked: .9, Bytes: uint64(rate / 2), Corrected: true}
		if c.Step(s) > several {
			return
		}
	}
	t.Error("others are never tried")
}

// TestSeveralWhereMuchIsInFlight: a far path that much is in flight on has several
// connections as soon as it limits what is sent, and no fewer while it does.
func TestSeveralWhereMuchIsInFlight(t *testing.T) {
	for _, c := range []struct {
		what string
		path path
		want int
	}{
		{"full", path{rtt: 80 * time.Millisecond, capacity: 6e6, single: 6e6, queue: 50 * time.Millisecond}, several},
		{"far", path{rtt: 80 * time.Millisecond, capacity: 6e6, single: 6e6}, several},
		{"little in flight", path{rtt: 80 * time.Millisecond, capacity: .2e6, single: .2e6}, 1},
		{"full, little in flight", path{rtt: 80 * time.Millisecond, capacity: .3e6, single: .3e6, queue: 50 * time.Millisecond}, 1},
		{"near", path{rtt: 5 * time.Millisecond, capacity: 60e6, single: 60e6, queue: 15 * time.Millisecond}, 1},
	} {
		rnd, now := begin()
		climber := New(64, 0)
		c.path.run(climber, rnd, now, time.Second) // the first sample has no time before it
		if n := climber.Wanted(); n != c.want {
			t.Errorf("%s: %d connections after a second", c.what, n)
		}
		for range 120 {
			c.path.run(climber, rnd, now, time.Second)
			if n := climber.Wanted(); n < c.want {
				t.Fatalf("%s: %d connections", c.what, n)
			}
		}
	}
}

// TestSeveralAreNoMoreThanThereMayBe, and are given back when nobody needs them.
func TestSeveralAreNoMoreThanThereMayBe(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 80 * time.Millisecond, capacity: 6e6, single: 6e6, queue: 50 * time.Millisecond}
	c := New(3, 0)
	if _, n := p.run(c, rnd, now, 10*time.Second); n != 3 {
		t.Errorf("%d of at most 3 connections", n)
	}
	if c.Limit(2); c.Wanted() != 2 {
		t.Errorf("%d of at most 2 connections", c.Wanted())
	}
	p.offered = .1e6
	if _, n := p.run(c, rnd, now, time.Minute); n != 1 {
		t.Errorf("%d connections for next to nothing", n)
	}
}

// TestWhoHasLittleOfAFullPathGetsSeveralToo: a link that comes to a path which another one
// fills with several connections has a fifth of it with one, and little in flight. On a
// path on which there is little in flight at all both end with one.
func TestWhoHasLittleOfAFullPathGetsSeveralToo(t *testing.T) {
	const rtt = 130 * time.Millisecond
	for _, c := range []struct {
		capacity float64
		want     int
	}{{12.5e6, several}, {1.25e6, several}, {.1e6, 1}} {
		_, now := begin()
		a, b := New(64, 0), New(64, 0)
		a.n, a.base = several, several
		for range 120 {
			*now = now.Add(500 * time.Millisecond)
			na, nb := a.Wanted(), b.Wanted()
			for _, x := range []*Climber{a, b} {
				rate := c.capacity * float64(x.Wanted()) / float64(na+nb) // before either changes
				x.Step(Sample{At: *now, Open: x.Wanted(), RTT: rtt, Least: 80 * time.Millisecond, Blocked: .9, Bytes: uint64(rate / 2)})
			}
		}
		if a.Wanted() != c.want || b.Wanted() != c.want {
			t.Errorf("%.0f bytes per second: %d and %d connections", c.capacity, a.Wanted(), b.Wanted())
		}
	}
}

// TestFullPathIsNotTriedWhenItsQueueEmpties: each loss empties it for a moment.
func TestFullPathIsNotTriedWhenItsQueueEmpties(t *testing.T) {
	rnd, now := begin()
	p := path{rtt: 80 * time.Millisecond, capacity: 6e6, single: 6e6, queue: 50 * time.Millisecond}
	c := New(64, 0)
	p.run(c, rnd, now, 10*time.Second)
	for range 60 { // 4 s full, 3 s not
		p.queue = 50 * time.Millisecond
		p.run(c, rnd, now, 4*time.Second)
		p.queue = 0
		if _, n := p.run(c, rnd, now, 3*time.Second); n != several {
			t.Fatalf("%d connections", n)
		}
	}
}
