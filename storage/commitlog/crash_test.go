package commitlog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

var crashSeeds = flag.Uint64("crash.seeds", 3, "random histories per durability that are crashed at every operation")

// crashPoint is a disk after a power loss, and what must be true of it.
type crashPoint struct {
	op   vfs.Op
	seed uint64
	disk *vfs.Mem
	at   moment
}

// crasher takes a clone of a crash before each operation that changes the disk.
type crasher struct {
	mu     sync.Mutex
	m      *model
	disk   *vfs.Mem
	seed   uint64
	points []crashPoint
}

func (c *crasher) hook(op vfs.Op) error {
	if !op.Kind.Changes() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := crashPoint{op: op, seed: c.seed<<20 + uint64(op.N)}
	promised := c.m.moment() // before the clone: what was promised then is in it
	p.disk = c.disk.CrashClone(vfs.CrashOptions{Seed: p.seed})
	p.at = c.m.moment() // after it: what is in it was appended before
	p.at.promise = promised.promise
	c.points = append(c.points, p)
	return nil
}

const crashFileSize = 64 << 10

// live runs a random history on a log, with rotation, removal of old files and
// flushes in between.
func live(t testing.TB, m *model, disk *vfs.Mem, durability Durability, frames int) {
	l, err := tryLive(m, disk, durability, frames)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func tryLive(m *model, disk *vfs.Mem, durability Durability, frames int) (*Log, error) {
	l, _, err := Open(Config{FS: disk, Dir: "log", FileSize: crashFileSize, Durability: durability, MaxSpares: 1, Direct: m.direct})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- l.Run(ctx) }()
	for range frames {
		m.append(l)
		switch m.rng.IntN(12) {
		case 0, 1, 2:
			if err := l.Flush(ctx); err != nil {
				return l, errors.Join(err, <-result)
			}
			m.mu.Lock()
			m.promise = len(m.frames)
			m.mu.Unlock()
		case 3:
			if files := l.Files(); len(files) > 1 && files[0].Closed {
				m.mu.Lock()
				m.removed[files[0].ID] = true
				m.mu.Unlock()
				if err := l.Remove(files[0].ID); err != nil {
					cancel()
					return l, errors.Join(err, <-result)
				}
			}
		}
	}
	cancel()
	return l, <-result
}

// reopen checks a crash point, goes on from it with more frames, crashes at some
// operation of that, and checks again: what was cut must not come back.
func reopen(t *testing.T, m *model, p crashPoint) {
	fail := func(err error) {
		t.Helper()
		t.Fatalf("crash before operation %d (%s %s), seed %d: %v", p.op.N, p.op.Kind, p.op.Name, p.seed, err)
	}
	cfg := Config{FS: p.disk, Dir: "log", FileSize: crashFileSize, MaxSpares: 1, Direct: p.seed%2 == 0}
	l, rep, err := Open(cfg)
	if err != nil {
		fail(err)
	}
	n, err := m.check(l, p.at)
	if err != nil {
		fail(fmt.Errorf("%w (report %+v)", err, rep))
	}
	l.Close()
	second := m.fork(p.seed)
	second.forget(n)
	second.removed = p.at.removed
	c := &crasher{m: second, disk: p.disk, seed: p.seed + 1}
	p.disk.SetHook(c.hook)
	live(t, second, p.disk, Fsync, 6)
	p.disk.SetHook(nil)
	again := c.points[int(p.seed*7)%len(c.points)]
	cfg.FS = again.disk
	l, rep, err = Open(cfg)
	if err != nil {
		fail(fmt.Errorf("second crash before %s %s: %w", again.op.Kind, again.op.Name, err))
	}
	defer l.Close()
	if _, err := second.check(l, again.at); err != nil {
		fail(fmt.Errorf("second crash before %s %s: %w (report %+v)", again.op.Kind, again.op.Name, err, rep))
	}
}

// TestI1I2I12CrashAtEveryOperation runs random histories of several shards and cuts
// the power before each operation in turn: nothing promised is lost, the log is a
// beginning of what was written, and nothing else is in it, then and after going on.
func TestI1I2I12CrashAtEveryOperation(t *testing.T) {
	seeds := *crashSeeds
	if testing.Short() {
		seeds = 1
	}
	for _, durability := range []Durability{Fsync, Interval, None} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%v/%d", durability, seed), func(t *testing.T) {
				t.Parallel()
				m := newModel(seed, 6000)
				c := &crasher{m: m, disk: vfs.NewMem(vfs.MemConfig{}), seed: seed}
				c.disk.SetHook(c.hook)
				live(t, m, c.disk, durability, 120)
				c.disk.SetHook(nil)
				for _, p := range c.points {
					reopen(t, m, p)
				}
			})
		}
	}
}

// TestI1FaultAtEveryOperation breaks each operation of a history in turn, in several
// ways. The log must end with that error; reopened as after a crash of the process,
// it must have kept its promises; and what it then says it holds must really be on
// disk, although a failed flush left pages in memory that look fine.
func TestI1FaultAtEveryOperation(t *testing.T) {
	faults := []error{syscall.EIO, syscall.ENOSPC, &vfs.ShortWrite{N: 700}}
	for n := int64(1); ; n++ {
		reached := false
		for i, fault := range faults {
			m := newModel(uint64(n), 6000)
			disk := vfs.NewMem(vfs.MemConfig{})
			broken := false
			var mu sync.Mutex
			disk.SetHook(func(op vfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if op.N >= n && op.Kind != vfs.OpClose && !broken {
					broken, reached = true, true
					return fault
				}
				return nil
			})
			l, err := tryLive(m, disk, Fsync, 60)
			if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("operation %d, fault %d: ended with %v", n, i, err)
			}
			if l != nil {
				l.Close()
			}
			disk.SetHook(nil)
			if err := survives(m, disk, uint64(n)); err != nil {
				t.Fatalf("operation %d, fault %d: %v", n, i, err)
			}
		}
		if !reached {
			return
		}
	}
}

// survives reopens a disk as the next process would, and then after a power loss.
func survives(m *model, disk *vfs.Mem, seed uint64) error {
	cfg := Config{FS: disk, Dir: "log", FileSize: crashFileSize, MaxSpares: 1}
	l, _, err := Open(cfg)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	kept, err := m.check(l, m.moment())
	if err != nil {
		return err
	}
	l.Close()
	m.promise = kept // Raft was told that it has them
	cfg.FS = disk.CrashClone(vfs.CrashOptions{Seed: seed})
	l, _, err = Open(cfg)
	if err != nil {
		return fmt.Errorf("power loss after reopen: %w", err)
	}
	defer l.Close()
	if _, err := m.check(l, m.moment()); err != nil {
		return fmt.Errorf("power loss after reopen: %w", err)
	}
	return nil
}
