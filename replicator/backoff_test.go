package replicator

import (
	"testing"
	"time"
)

func TestBackoffGrowsToItsCap(t *testing.T) {
	b := backoff{least: 100 * time.Millisecond, most: time.Second}
	for i := range 100 {
		top := min(time.Second, 100*time.Millisecond<<min(i, 10))
		if d := b.next(); d > top || d < top*3/4 {
			t.Fatalf("pause %d is %s, want three quarters of %s to all of it", i, d, top)
		}
	}
	b.reset()
	if d := b.next(); d > 100*time.Millisecond {
		t.Errorf("after a success the pause is %s", d)
	}
}
