package commitlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// gate is a file system whose flushes of log files wait until they are let through.
type gate struct {
	*vfs.Mem
	waiting atomic.Int32
	open    chan error // what a flush ends with
}

func newGate() *gate {
	g := &gate{Mem: vfs.NewMem(vfs.MemConfig{}), open: make(chan error)}
	g.SetHook(func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, logSuffix) {
			return nil
		}
		g.waiting.Add(1)
		defer g.waiting.Add(-1)
		return <-g.open
	})
	return g
}

// outcome collects what callbacks say, in order: name for done, name! for Flushed.
type outcome struct {
	mu    sync.Mutex
	lines []string
}

func (o *outcome) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *outcome) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.Join(o.lines, " ")
	o.lines = nil
	return s
}

// post appends one entry, or only a hard state, without waiting.
func (o *outcome) post(l *Log, name string, mustSync bool, entry uint64) {
	f := &Frame{Kind: KindEntries, Shard: 1, HardState: hardState(1, 1, entry), Flushed: func(err error) { o.add("%s!%s", name, word(err)) }}
	if mustSync {
		f.Entries = entries(entry, 1, name)
	}
	l.Append(f, mustSync, func(_ []Location, err error) { o.add("%s%s", name, word(err)) })
}

func word(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.EIO):
		return "=EIO"
	case errors.Is(err, ErrClosed):
		return "=closed"
	case errors.Is(err, ErrKilled):
		return "=killed"
	}
	return "=" + err.Error()
}

// expect checks the callbacks so far. It needs a bubble.
func expect(t *testing.T, o *outcome, want string) {
	t.Helper()
	synctest.Wait()
	if got := o.take(); got != want {
		t.Fatalf("callbacks %q, want %q", got, want)
	}
}

// later lets virtual time pass.
func later(d time.Duration) { <-time.After(d) }

// TestWritesOverlapFlush lets frames be written while a flush runs; they share the
// next one.
func TestWritesOverlapFlush(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate()
		l := start(t, Config{FS: g})
		var o outcome
		o.post(l.Log, "a", true, 1)
		expect(t, &o, "")
		o.post(l.Log, "b", true, 2)
		synctest.Wait()
		o.post(l.Log, "c", true, 3)
		synctest.Wait()
		if end := l.Files()[0].Bytes; g.waiting.Load() != 1 || l.Flushed() != (Mark{}) || end < framesStart+3*frameHeaderSize {
			t.Fatalf("%d bytes written, %v flushed, %d flushes", end, l.Flushed(), g.waiting.Load())
		}
		g.open <- nil
		expect(t, &o, "a a!")
		g.open <- nil
		expect(t, &o, "b c b! c!")
		if l.Flushed().Pos != l.Files()[0].Bytes {
			t.Fatalf("flushed %v of %d", l.Flushed(), l.Files()[0].Bytes)
		}
		close(g.open)
	})
}

// TestCommitAloneDoesNotFlush covers what Raft writes at each commit: a hard state
// that need not be safe. It waits for what is before it, not for a flush of its own.
func TestCommitAloneDoesNotFlush(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate()
		l := start(t, Config{FS: g})
		var o outcome
		o.post(l.Log, "a", true, 1)
		synctest.Wait()
		o.post(l.Log, "hs", false, 2)
		expect(t, &o, "")
		g.open <- nil
		expect(t, &o, "a a! hs")
		if g.waiting.Load() != 0 {
			t.Fatal("a commit was flushed at once")
		}
		later(l.cfg.FlushInterval) // its Flushed callback is due then
		g.open <- nil
		expect(t, &o, "hs!")
		close(g.open)
	})
}

// TestInterval answers at once and flushes later, and an idle log does nothing.
func TestInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate()
		l := start(t, Config{FS: g, Durability: Interval, FlushInterval: time.Second})
		var o outcome
		began := time.Now()
		o.post(l.Log, "a", true, 1)
		expect(t, &o, "a")
		g.open <- nil // waits, in virtual time, for the flush to come
		expect(t, &o, "a!")
		if d := time.Since(began); d != time.Second {
			t.Fatalf("flushed after %v", d)
		}
		before := g.Ops()
		later(time.Hour)
		if ops := g.Ops() - before; ops != 0 {
			t.Fatalf("an idle log made %d operations", ops)
		}
		close(g.open)
	})
}

// TestNoneFlushesWhenAsked leaves flushing to Flush.
func TestNoneFlushesWhenAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := start(t, Config{FS: vfs.NewMem(vfs.MemConfig{}), Durability: None})
		var done atomic.Bool
		l.Append(&Frame{Kind: KindEntries, Entries: entries(1, 1, "a")}, true, func([]Location, error) { done.Store(true) })
		later(time.Hour)
		if !done.Load() || l.Flushed() != (Mark{}) {
			t.Fatalf("done %v, flushed %v", done.Load(), l.Flushed())
		}
		for range 2 {
			if err := l.Flush(context.Background()); err != nil || l.Flushed().Pos == 0 {
				t.Fatalf("flush: %v, %v", err, l.Flushed())
			}
		}
	})
}

// TestFailedFlushEndsTheLog: all that waits and all that comes gets the error, in
// order; a restart works.
func TestFailedFlushEndsTheLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate()
		l := start(t, Config{FS: g})
		var o outcome
		for i, name := range []string{"a", "b", "c"} {
			o.post(l.Log, name, true, uint64(i+1))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		flush := make(chan error, 1)
		go func() { flush <- l.Flush(ctx) }()
		synctest.Wait()
		g.open <- syscall.EIO
		expect(t, &o, "a=EIO a!=EIO b=EIO b!=EIO c=EIO c!=EIO")
		if err := <-l.result; !errors.Is(err, syscall.EIO) {
			t.Fatalf("Run: %v", err)
		}
		if err := <-flush; !errors.Is(err, syscall.EIO) {
			t.Fatalf("Flush: %v", err)
		}
		o.post(l.Log, "d", true, 4)
		o.post(l.Log, "e", true, 5)
		expect(t, &o, "d=EIO d!=EIO e=EIO e!=EIO")
		if !errors.Is(l.Err(), syscall.EIO) || !errors.Is(l.Flush(ctx), syscall.EIO) {
			t.Fatalf("Err: %v", l.Err())
		}
		l.Close()
		g.SetHook(nil)
		l = start(t, Config{FS: g})
		l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(1, 2, "again")})
	})
}

// TestStopFlushesWhatIsQueued and TestKillDoesNot are the two ways to end.
func TestStopFlushesWhatIsQueued(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := start(t, Config{FS: vfs.NewMem(vfs.MemConfig{}), Durability: None})
		var o outcome
		o.post(l.Log, "a", true, 1)
		l.cancel()
		if err := <-l.result; err != nil {
			t.Fatal(err)
		}
		expect(t, &o, "a a!")
		o.post(l.Log, "b", true, 2)
		expect(t, &o, "b=closed b!=closed")
		if err := l.Flush(t.Context()); err != nil {
			t.Fatalf("all is flushed, but: %v", err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Run(t.Context()); err == nil {
			t.Fatal("Run after Close")
		}
	})
}

func TestKillDoesNot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate()
		l := start(t, Config{FS: g})
		var o outcome
		o.post(l.Log, "a", true, 1)
		synctest.Wait()
		o.post(l.Log, "b", true, 2)
		l.Kill()
		g.open <- nil // the flush that was running finishes
		if err := <-l.result; !errors.Is(err, ErrKilled) {
			t.Fatalf("Run: %v", err)
		}
		expect(t, &o, "a a! b=killed b!=killed")
		if l.Flush(t.Context()) != ErrKilled {
			t.Fatal("Flush of a killed log")
		}
	})
}

// TestCloseWithoutRun answers what was queued.
func TestCloseWithoutRun(t *testing.T) {
	l, _ := openLog(t, Config{FS: vfs.NewMem(vfs.MemConfig{})})
	if err := l.Flush(t.Context()); err != nil {
		t.Fatalf("nothing to flush: %v", err)
	}
	var o outcome
	o.post(l, "a", true, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := o.take(); got != "a=closed a!=closed" {
		t.Fatalf("callbacks %q", got)
	}
}
