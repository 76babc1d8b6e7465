package kafka

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

// Who asks for much is not starved by those who ask for little and come later.
func TestBudgetIsFirstComeFirstServed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBudget(10)
		if !b.TryAcquire(8) {
			t.Fatal("8 of 10")
		}
		served := make(chan int64, 2)
		for _, n := range []int64{6, 2} {
			go func() {
				if err := b.Acquire(t.Context(), n); err != nil {
					t.Error(err)
				}
				served <- n
			}()
			synctest.Wait()
		}
		if b.TryAcquire(1) || len(served) > 0 {
			t.Error("2 or 1 passed the one that waits for 6")
		}
		b.Release(4)
		if n := <-served; n != 6 {
			t.Errorf("%d was served first", n)
		}
		b.Release(2)
		if n := <-served; n != 2 || b.free != 0 {
			t.Errorf("%d was served, %d free", n, b.free)
		}
	})
}

// A waiter that gives up leaves nothing behind and lets those behind it pass.
func TestBudgetWaiterGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBudget(10)
		b.TryAcquire(8)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- b.Acquire(ctx, 10) }()
		synctest.Wait()
		go func() { small <- b.Acquire(t.Context(), 2) }()
		if err := <-large; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-small; err != nil || b.free != 0 {
			t.Errorf("%v, %d free", err, b.free)
		}
		b.Release(10)
		if b.free != 10 {
			t.Errorf("%d free", b.free)
		}
	})
}

// Lines that are alike come once a second, with the number of those left out.
func TestLimiterCountsWhatItHides(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		out := &logBuffer{}
		log := textLogger(out)
		var l limiter
		for range 5 {
			l.warn(log, "m")
		}
		time.Sleep(time.Second)
		l.warn(log, "m")
		want := "level=WARN msg=m\nlevel=WARN msg=m similar_lines_hidden=4\n"
		if out.String() != want {
			t.Errorf("%q", out)
		}
	})
}

// Small requests have a share, and no more while a large one waits.
func TestBudgetShareOfSmallRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newSharedBudget(100, 20)
		if b.try(81, false) || !b.try(80, false) {
			t.Fatal("large requests have 80 of 100")
		}
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- b.acquire(t.Context(), 60, false) }()
		synctest.Wait()
		if !b.try(15, true) || b.try(6, true) || !b.pressed() {
			t.Fatal("small ones have 20 while a large one waits")
		}
		go func() { small <- b.acquire(t.Context(), 10, true) }()
		synctest.Wait()
		b.release(80, false)
		synctest.Wait()
		if len(large) != 1 || len(small) != 1 || b.pressed() || b.free != 15 || b.smallHeld != 25 {
			t.Fatalf("large %d, small %d served, %d free, %d held by small ones", len(large), len(small), b.free, b.smallHeld)
		}
		if !b.try(15, true) {
			t.Error("small ones may have all when no large one waits")
		}
	})
}
