package fec

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func play(a *adaptor, seconds int, sample func(second int) Sample) Code {
	at := a.at
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	var c Code
	for i := range seconds {
		at = at.Add(time.Second)
		s := sample(i)
		s.Corrected = a.on
		c = a.observe(at, s)
	}
	return c
}

const rtt = 200 * time.Millisecond

func TestCleanLineStaysClean(t *testing.T) {
	a := &adaptor{}
	if c := play(a, 3600, func(i int) Sample { return Sample{Sent: 20000, RTT: rtt, LeastRTT: rtt} }); !c.Off() {
		t.Errorf("%v without a loss", c)
	}
}

func TestLossTurnsItOnAndItsEndOff(t *testing.T) {
	a := &adaptor{}
	c := play(a, 10, func(int) Sample { return Sample{Sent: 100, Lost: 1, RTT: rtt + 3*time.Millisecond, LeastRTT: rtt} })
	if c.Off() {
		t.Fatal("off at 1 % loss")
	}
	c = play(a, 60, func(int) Sample { return Sample{Sent: 20000, Lost: 200, Recovered: 200, RTT: rtt, LeastRTT: rtt} })
	if c.Data != 20 || c.Parity < 4 || c.Parity > 6 {
		t.Errorf("%v at 1 %% loss", c)
	}
	c = play(a, 60, func(int) Sample { return Sample{Sent: 20000, Lost: 2, Recovered: 2, RTT: rtt, LeastRTT: rtt} })
	if c.Data != 32 || c.Parity > 3 {
		t.Errorf("%v at 0.01 %% loss", c)
	}
	c = play(a, 300, func(int) Sample { return Sample{Sent: 20000, RTT: rtt, LeastRTT: rtt} })
	if !c.Off() {
		t.Errorf("%v minutes after the last loss", c)
	}
}

// A connection that finds the limit of a line loses many packets once. That says nothing
// of what the line loses by itself.
func TestOneBurstIsForgotten(t *testing.T) {
	a := &adaptor{}
	most := 0.0
	c := play(a, 30, func(i int) Sample {
		s := Sample{Sent: 5000, RTT: rtt, LeastRTT: rtt}
		switch i {
		case 0:
			s.Sent = 500
		case 1:
			s.RTT += rtt
		case 2:
			s.Lost = 700 // told late, when the queue is gone
		}
		most = max(most, a.code().Overhead())
		return s
	})
	if most > trialCode.Overhead() || c.Overhead() > .2 {
		t.Errorf("%v at last, %.0f %% at most", c, 100*most)
	}
	a = &adaptor{}
	c = play(a, 20, func(i int) Sample {
		s := Sample{Sent: 5000, RTT: rtt, LeastRTT: rtt}
		if i == 2 {
			s.Lost = 700 // there was no queue at all
		}
		return s
	})
	if c.Overhead() > .2 {
		t.Errorf("%v some time after one burst", c)
	}
	// A line that does get as bad is followed within seconds.
	c = play(a, 8, func(i int) Sample { return Sample{Sent: 5000, Lost: 500, Recovered: 500, RTT: rtt, LeastRTT: rtt} })
	if c.Overhead() < .4 {
		t.Errorf("%v at 10 %% loss", c)
	}
}

// QUIC takes packets for lost that were only late. Those who get them know better.
func TestLateIsNotLost(t *testing.T) {
	a := &adaptor{}
	on := 0
	play(a, 1200, func(int) Sample {
		s := Sample{Sent: 5000, Lost: 10, RTT: rtt, LeastRTT: rtt}
		if a.on {
			on++
			s.Lost = 0
		}
		return s
	})
	if on > 200 {
		t.Errorf("on for %d of 1200 seconds", on)
	}
}

// What was lost before it was on says nothing about what it brings back.
func TestManyLossesBefore(t *testing.T) {
	a := &adaptor{at: time.Unix(0, 0), sent: 150000, lost: 1500}
	play(a, 1, func(int) Sample { return Sample{Sent: 50000, Lost: 500, RTT: rtt, LeastRTT: rtt} })
	if c := play(a, 10, func(int) Sample { return Sample{Sent: 5000, Lost: 50, Recovered: 49, RTT: rtt, LeastRTT: rtt} }); c.Off() {
		t.Error("off, although it brings back what is lost")
	}
}

func TestFullQueueIsNotCorrected(t *testing.T) {
	a := &adaptor{}
	full := func(i int) Sample {
		s := Sample{Sent: 8000, RTT: 2 * rtt, LeastRTT: rtt}
		if i%4 == 0 {
			s.Lost = 400
		}
		return s
	}
	if c := play(a, 600, full); !c.Off() {
		t.Errorf("%v for the losses of a full queue", c)
	}
	// It was on for another reason, and the queue fills.
	play(a, 20, func(int) Sample { return Sample{Sent: 100, Lost: 1, RTT: rtt, LeastRTT: rtt} })
	if !a.on {
		t.Fatal("off at 1 % loss")
	}
	if c := play(a, 10, func(int) Sample { return Sample{Sent: 8000, Lost: 900, Recovered: 800, RTT: 2 * rtt, LeastRTT: rtt} }); !c.Off() {
		t.Errorf("%v behind a full queue", c)
	}
}

// A line that loses at random and is full all the same has no room for parity: what is
// added takes the place of data, and the queue never goes. Where it does go, now and
// then, correction stays.
func TestFullLineIsNotCorrected(t *testing.T) {
	for _, c := range []struct {
		name     string
		trip     func(second int) time.Duration
		from, to int // seconds of 600 that correction may be on
	}{
		{"always full", func(int) time.Duration { return 2 * rtt }, 1, 80},
		{"a moment's queue", func(i int) time.Duration { return rtt + rtt*time.Duration(min(i%9, 1)) }, 590, 600},
	} {
		a := &adaptor{}
		play(a, 20, func(int) Sample { return Sample{Sent: 100, Lost: 1, RTT: rtt, LeastRTT: rtt} })
		on := 0
		play(a, 600, func(i int) Sample {
			s := Sample{Sent: 2000, Lost: 20, Recovered: 20, RTT: rtt, LeastRTT: rtt}
			if a.on { // without it the senders leave room
				on, s.RTT = on+1, c.trip(i)
			}
			return s
		})
		if on < c.from || on > c.to {
			t.Errorf("%s: on for %d of 600 seconds", c.name, on)
		}
	}
}

// A new path is corrected on trial, and may be full from the first second on.
func TestTrialOfAFullLineEnds(t *testing.T) {
	a := &adaptor{}
	at, on := time.Unix(0, 0), 0
	for range 600 {
		at = at.Add(time.Second)
		code := a.code()
		s := Sample{Sent: 2000, Lost: 20, RTT: rtt, LeastRTT: rtt, Corrected: !code.Off()}
		if s.Corrected {
			on, s.RTT = on+1, 2*rtt
		}
		a.observe(at, s)
	}
	if on > 80 {
		t.Errorf("on for %d of 600 seconds", on)
	}
}

// A policer has no queue: what is sent beyond its rate is lost, the more the more is
// sent. Correction must not fight it.
func TestLossThatGrowsWithCorrection(t *testing.T) {
	a := &adaptor{}
	on := 0
	play(a, 600, func(i int) Sample {
		if !a.on {
			return Sample{Sent: 5000, Lost: 25, RTT: rtt, LeastRTT: rtt}
		}
		on++
		return Sample{Sent: 10000, Lost: 2000, Recovered: 1500, RTT: rtt, LeastRTT: rtt}
	})
	if on > 60 {
		t.Errorf("on for %d of 600 seconds", on)
	}
}

func TestRowsOfLosses(t *testing.T) {
	// Short ones: more parity.
	a := &adaptor{}
	play(a, 1, func(int) Sample { return Sample{Sent: 1000, Lost: 5, RTT: rtt, LeastRTT: rtt} })
	before := a.code()
	after := play(a, 8, func(int) Sample { return Sample{Sent: 5000, Lost: 25, Recovered: 15, RTT: rtt, LeastRTT: rtt} })
	if after.Parity <= before.Parity {
		t.Errorf("%v, then %v although a third stays lost", before, after)
	}
	// Long ones: no use.
	a = &adaptor{}
	if c := play(a, 30, func(int) Sample { return Sample{Sent: 5000, Lost: 80, Recovered: 2, RTT: rtt, LeastRTT: rtt} }); !c.Off() {
		t.Errorf("%v for losses that it does not bring back", c)
	}
}

func TestPinnedIsPinned(t *testing.T) {
	for _, m := range []Mode{Pinned(Code{20, 4}), Pinned(Code{})} {
		a := &adaptor{mode: m}
		luck := rand.New(rand.NewPCG(1, 1))
		play(a, 100, func(int) Sample {
			if c := a.observe(a.at, Sample{Sent: 1000, Lost: uint64(luck.IntN(500)), RTT: rtt, LeastRTT: rtt}); c != m.code {
				t.Fatalf("%v, pinned to %v", c, m)
			}
			return Sample{}
		})
	}
}

// Whatever is measured, a code is off or one that packets can carry, and never more
// than doubles what is sent.
func TestCodesAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &adaptor{}
		play(a, rapid.IntRange(1, 200).Draw(t, "seconds"), func(int) Sample {
			sent := rapid.Uint64Range(0, 50000).Draw(t, "sent")
			lost := rapid.Uint64Range(0, sent).Draw(t, "lost")
			c := a.observe(a.at, Sample{Sent: sent, Lost: lost, Recovered: rapid.Uint64Range(0, lost).Draw(t, "recovered"),
				RTT: rapid.SampledFrom([]time.Duration{rtt, rtt + time.Millisecond, 3 * rtt}).Draw(t, "rtt"), LeastRTT: rtt})
			if !c.Off() && (c.Data < 1 || c.Data > MaxData || c.Parity > MaxParity || c.Overhead() > 1) {
				t.Fatalf("code %v", c)
			}
			return Sample{}
		})
	})
}

// Stronger losses never get a weaker code.
func TestCodeForGrows(t *testing.T) {
	last := 0.0
	for loss := 1e-6; loss < .25; loss *= 1.1 {
		c := CodeFor(loss)
		if c.Overhead() < last*.8 || c.Off() {
			t.Errorf("%v for %v, and %v before", c, loss, last)
		}
		last = max(last, c.Overhead())
	}
}

// A path of which nothing is known is corrected until it is known to be clean, and is
// not tried again, unless its shortest round trip becomes that of another one.
func TestNewPathIsTried(t *testing.T) {
	a := &adaptor{}
	clean := func(trip time.Duration) func(int) Sample {
		return func(int) Sample { return Sample{Sent: 100, RTT: trip, LeastRTT: trip} }
	}
	if c := play(a, 5, clean(rtt)); c != trialCode {
		t.Errorf("%v on a new path", c)
	}
	if c := play(a, 60, clean(rtt)); !c.Off() {
		t.Errorf("%v when it is known", c)
	}
	if c := play(a, 60, clean(rtt/10)); !c.Off() {
		t.Errorf("%v on another path that is known by now", c)
	}
	if c := play(a, 5, clean(rtt)); c != trialCode {
		t.Errorf("%v on a third one", c)
	}
	if c := play(&adaptor{}, 5, clean(time.Millisecond)); !c.Off() {
		t.Errorf("%v on a short path", c)
	}
	bad := func(int) Sample {
		return Sample{Sent: 1000, Lost: 10, RTT: time.Millisecond, LeastRTT: time.Millisecond}
	}
	if c := play(&adaptor{}, 60, bad); !c.Off() {
		t.Errorf("%v on a short path that loses packets", c)
	}
	// One loss among some thousand packets: it is not known yet.
	a = &adaptor{}
	one := func(i int) Sample {
		s := Sample{Sent: 100, RTT: rtt, LeastRTT: rtt}
		if i == 10 {
			s.Lost = 1
		}
		return s
	}
	if c := play(a, 100, one); c != trialCode {
		t.Errorf("%v after one loss of 10,000", c)
	}
	if c := play(a, 200, clean(rtt)); !c.Off() {
		t.Errorf("%v after one loss of 30,000", c)
	}
}
