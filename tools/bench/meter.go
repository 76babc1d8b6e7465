package main

import (
	"cmp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// latencies collects how late things were. It keeps nothing unless told to.
type latencies struct {
	keep bool
	mu   sync.Mutex
	ms   []float64
	late time.Time // when the last one was there that was later than lateAfter
}

// lateAfter is what people call late.
const lateAfter = time.Second

func newLatencies(keep bool) *latencies { return &latencies{keep: keep} }

// add notes that what was due at a time, Unix ns, is there now.
func (l *latencies) add(due int64) {
	if !l.keep {
		return
	}
	now := time.Now()
	late := time.Duration(now.UnixNano() - due)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ms = append(l.ms, late.Seconds()*1e3)
	if late > lateAfter {
		l.late = now
	}
}

func (l *latencies) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ms, l.late = nil, time.Time{}
}

// quantiles gives median and 99th percentile in ms, zeros if there are none.
func (l *latencies) quantiles() (p50, p99 float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ms) == 0 {
		return 0, 0
	}
	slices.Sort(l.ms)
	return l.ms[len(l.ms)/2], l.ms[len(l.ms)*99/100]
}

// lastLate is when the last one was there that was late.
func (l *latencies) lastLate() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// meter looks at the servers while something runs.
type meter struct {
	p      *processes
	start  time.Time
	before usage
	client time.Duration
	err    error
	quit   chan struct{}
	ended  chan struct{}
	rss    int64
}

func (m *machine) startMeter() *meter {
	t := &meter{p: m.processes, start: time.Now(), client: ownCPU(), quit: make(chan struct{}), ended: make(chan struct{})}
	t.before, t.err = t.p.usage()
	t.rss = t.before.rss
	go func() {
		defer close(t.ended)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-t.quit:
				return
			case <-tick.C:
				if u, err := t.p.usage(); err == nil {
					t.rss = max(t.rss, u.rss)
				}
			}
		}
	}()
	return t
}

// stop gives the figures of so many records.
func (t *meter) stop(records int64, size int) (*result, error) {
	took := time.Since(t.start)
	close(t.quit)
	<-t.ended
	after, err := t.p.usage()
	if err != nil || t.err != nil {
		return nil, cmp.Or(t.err, err)
	}
	gb := float64(records) * float64(size) / 1e9
	r := &result{Records: records, Seconds: took.Seconds(), RSS: float64(max(t.rss, after.rss)) / 1e6}
	r.Rate = float64(records) / took.Seconds()
	r.MB = gb * 1e3 / took.Seconds()
	if gb > 0 {
		r.CPU = (after.cpu - t.before.cpu).Seconds() / gb
		r.Client = (ownCPU() - t.client).Seconds() / gb
	}
	return r, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
