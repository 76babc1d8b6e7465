package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
)

// waiting gives how many puts wait for the lock.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waits)
}

// TestPutsShareTheLock holds the lock of a directory until several puts wait: who gave up
// has put nothing, one that breaks breaks alone, and a list that comes while the first is
// put sees all, since none gives the lock away before the next.
func TestPutsShareTheLock(t *testing.T) {
	dir := t.TempDir()
	writer, reader := openStore(t, dir), openStore(t, dir)
	if err := writer.Put(t.Context(), document(t, 1)); err != nil {
		t.Fatal(err)
	}
	lock, err := reader.flock(t.Context(), syscall.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	const puts = 20
	broken := errors.New("broken")
	listed := make(chan int, 1)
	writes := 0
	writer.step = func(name string) error {
		if name != "write" {
			return nil
		}
		if writes++; writes == 1 {
			go func() {
				docs, _ := reader.List(context.Background(), configstore.Prefix)
				listed <- len(docs)
			}()
		}
		if writes == 3 {
			return broken
		}
		return nil
	}
	ctx, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- writer.Put(ctx, document(t, 2)) }()
	var wg sync.WaitGroup
	errs := make([]error, puts)
	for i := range puts {
		d, err := configstore.ParseDocument(fmt.Sprintf("rhumb/v1/tenants/t%d", i), []byte(`{"version":1,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test"}`))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { errs[i] = writer.Put(t.Context(), d) })
	}
	for writer.puts.waiting() <= puts {
		runtime.Gosched()
	}
	giveUp()
	if err := <-gaveUp; err == nil {
		t.Error("a put whose caller gave up before the lock was free is done")
	}
	lock.Close()
	wg.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			if !errors.Is(err, broken) {
				t.Error(err)
			}
		}
	}
	if n := <-listed; failed != 1 || n != puts {
		t.Errorf("%d puts failed, want 1; a list saw %d documents, want %d", failed, n, puts)
	}
	if d, err := reader.Get(t.Context(), key); err != nil || d.Version != 1 {
		t.Errorf("version %d, %v: the caller of another gave up", d.Version, err)
	}
}
