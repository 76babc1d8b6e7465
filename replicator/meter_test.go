package replicator

import (
	"testing"
	"time"
)

// TestLeastTripThroughAFullQueue: what catches up over a slow line fills its queue for many
// minutes, in which no round trip is that of the path: it is not forgotten after four. One that
// got longer for good, by less than a queue would, is learned within these.
func TestLeastTripThroughAFullQueue(t *testing.T) {
	const path, busy = 10 * time.Millisecond, 1.0
	m, now := &meter{}, time.Now()
	take := func(r time.Duration, blocked float64, during time.Duration) {
		for end := now.Add(during); now.Before(end); now = now.Add(time.Second) {
			m.turn(now)
			m.trip(r, blocked)
		}
	}
	take(path, 0, time.Minute)
	take(7*path, busy, 20*time.Minute)
	if got := m.leastTrip(); got != path {
		t.Errorf("after 20 minutes with a full queue the path is one of %s", got)
	}
	take(7*path, 0, time.Minute)
	if got := m.leastTrip(); got != 7*path {
		t.Errorf("after a minute with little to send it is one of %s", got)
	}
	take(11*path, 0, 5*time.Minute)
	if got := m.leastTrip(); got != 11*path {
		t.Errorf("five minutes after it got a little longer it is one of %s", got)
	}
	take(70*path, busy, 40*time.Minute)
	if got := m.leastTrip(); got != 70*path {
		t.Errorf("no queue is full for 40 minutes without a look at the path: %s", got)
	}
}
