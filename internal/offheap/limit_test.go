package offheap

import (
	"runtime/debug"
	"sync"
	"testing"
)

// TestWhatIsHeldComesOffTheLimit: the runtime's limit is what is left, in steps, never
// below half; and all of it again once nothing is held.
func TestWhatIsHeldComesOffTheLimit(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { Limit(0); debug.SetMemoryLimit(was) })
	left := func() int64 { return debug.SetMemoryLimit(-1) }

	Add(40 << 20) // before there is a limit
	if left() != was {
		t.Errorf("without a limit the runtime's became %d", left())
	}
	Limit(512 << 20)
	for _, c := range []struct{ add, want int64 }{
		{0, 480 << 20},
		{1 << 20, 480 << 20},
		{20 << 20, 464 << 20}, // 61 MiB
		{900 << 20, 256 << 20},
		{-961 << 20, 512 << 20},
	} {
		Add(c.add)
		if left() != c.want {
			t.Errorf("%d MiB held: the runtime's limit is %d MiB, want %d", Held()>>20, left()>>20, c.want>>20)
		}
	}
	Limit(0)
	Add(100 << 20)
	if left() != 512<<20 {
		t.Errorf("without a limit the runtime's became %d", left())
	}
	Add(-100 << 20)
}

func TestManyHoldAtOnce(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { Limit(0); debug.SetMemoryLimit(was) })
	Limit(1 << 30)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				Add(5 << 20)
				Add(-5 << 20)
			}
		})
	}
	all.Wait()
	if Held() != 0 || debug.SetMemoryLimit(-1) != 1<<30 {
		t.Errorf("%d held, limit %d", Held(), debug.SetMemoryLimit(-1))
	}
}
