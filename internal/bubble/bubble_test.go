package bubble

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestTimersThatAreDueAtOnce: many goroutines find their timers due in the same moment.
// With more than one processor the race detector does not survive the first of these.
func TestTimersThatAreDueAtOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer runtime.GOMAXPROCS(before)
	for range 4 {
		t.Run("", func(t *testing.T) {
			Test(t, func(t *testing.T) {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						timer := time.NewTimer(0)
						for range 10000 {
							timer.Reset(0)
							<-timer.C
						}
					})
				}
				all.Wait()
			})
		})
	}
	if n := runtime.GOMAXPROCS(0); n < 2 {
		t.Errorf("the process was left with %d processors", n)
	}
}
