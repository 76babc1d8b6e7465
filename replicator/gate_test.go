package replicator

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

func TestGateOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(10)
		if err := g.acquire(t.Context(), 10, fresh); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		enter := func(name string, n int64, c class) {
			go func() {
				if err := g.acquire(t.Context(), n, c); err == nil {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, name)
				}
			}()
			synctest.Wait()
		}
		enter("backlog", 5, backlog)
		enter("new 1", 5, fresh)
		enter("large", 50, fresh)
		enter("new 2", 5, fresh)
		step := func(n int64, want ...string) {
			t.Helper()
			got = nil
			g.release(n)
			synctest.Wait()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("after giving back %d: %q went through, want %q", n, got, want)
			}
		}
		step(5, "new 1")
		step(5)                      // "large" is first and waits until it is alone
		step(5, "large")             // and nobody overtook it
		step(50, "backlog", "new 2") // both at once
		step(10)
		if g.inUse() != 0 {
			t.Errorf("%d in use at the end", g.inUse())
		}
	})
}

func TestGateBacklogIsNotStarved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(1)
		_ = g.acquire(t.Context(), 1, fresh)
		through := false
		go func() {
			if g.acquire(t.Context(), 1, backlog) == nil {
				through = true
			}
		}()
		for range 2 * backlogShare {
			go func() { _ = g.acquire(t.Context(), 1, fresh) }()
		}
		synctest.Wait()
		for i := range backlogShare {
			if through {
				t.Fatalf("backlog went through after %d grants", i)
			}
			g.release(1)
			synctest.Wait()
		}
		if !through {
			t.Errorf("backlog still waits after %d grants to new data", backlogShare)
		}
		for range backlogShare + 1 {
			g.release(1)
			synctest.Wait()
		}
	})
}

func TestGateGivesUpWithTheContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(1)
		ctx, cancel := context.WithCancelCause(t.Context())
		_ = g.acquire(t.Context(), 1, fresh)
		failed := make(chan error)
		for range 200 { // more than the queue keeps dead heads of
			go func() { failed <- g.acquire(ctx, 1, fresh) }()
		}
		synctest.Wait()
		cancel(errStopped)
		for range 200 {
			if err := <-failed; err != errStopped {
				t.Fatalf("gave up with %v", err)
			}
		}
		g.release(1)
		if !g.try(1) || g.try(1) {
			t.Error("the budget is not what it was")
		}
	})
}

// TestGateDebtsAndBacklogTakeTurns: none of them keeps the other from its turn, and debts go by
// rank, those of one rank as they came.
func TestGateDebtsAndBacklogTakeTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(1)
		_ = g.acquire(t.Context(), 1, fresh)
		var got []string
		gone, leave := context.WithCancel(t.Context())
		enter := func(ctx context.Context, name string, c class, rank int64) {
			go func() {
				if g.acquireRanked(ctx, 1, c, rank) == nil {
					got = append(got, name) // who has it is alone
				}
			}()
			synctest.Wait()
		}
		enter(t.Context(), "debt 9", debt, 9)
		enter(t.Context(), "debt 5", debt, 5)
		enter(gone, "debt that left", debt, 4)
		enter(t.Context(), "debt 5 again", debt, 5)
		enter(t.Context(), "debt 3", debt, 3)
		leave()
		for _, name := range []string{"backlog 1", "backlog 2", "backlog 3"} {
			enter(t.Context(), name, backlog, 0)
		}
		for range 7 {
			g.release(1)
			synctest.Wait()
		}
		g.release(1)
		want := []string{"backlog 1", "debt 3", "backlog 2", "debt 5", "backlog 3", "debt 5 again", "debt 9"}
		if !slices.Equal(got, want) || g.crowded() {
			t.Errorf("they went through as %q, want %q; crowded %t", got, want, g.crowded())
		}
	})
}
