package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

var allPhases = []string{"produce-1k", "consume-1k", "produce-100b", "ack-5k", "live-5k", "copy-1k", "copy-100b"}

// machine does the phases with one system.
type machine struct {
	options   *options
	name      string
	system    system
	processes *processes
	results   *os.File

	topics int
	text   []byte
	stored load   // of produce-1k, which consume-1k reads
	topic  string // where it is
}

// result is what one phase came to: a line of the file.
type result struct {
	System  string    `json:"system"`
	Phase   string    `json:"phase"`
	When    time.Time `json:"when"`
	Records int64     `json:"records"`
	Seconds float64   `json:"seconds"`
	Rate    float64   `json:"records_per_s"`
	MB      float64   `json:"mb_per_s"`
	P50     float64   `json:"p50_ms,omitempty"`
	P99     float64   `json:"p99_ms,omitempty"`
	CPU     float64   `json:"server_cpu_s_per_gb"`
	Client  float64   `json:"client_cpu_s_per_gb"`
	RSS     float64   `json:"rss_max_mb"`
	Refused int64     `json:"refused"`                 // records whose answer was an error
	Lost    int64     `json:"lost"`                    // did not come before the time was up
	Level   float64   `json:"level_after_s,omitempty"` // after a cut line was back: until nothing came late any more

	// Of two links that share a line: what the smaller is of the larger in the last half
	// minute, and in the five seconds in which they differed most.
	Share      float64 `json:"smaller_by_larger,omitempty"`
	WorstShare float64 `json:"smaller_by_larger_worst_5s,omitempty"`
	*checker

	lastLate time.Time // when a record came last that was late
}

// wrong tells that a result is not worth a figure.
func (r *result) wrong() bool {
	return r.Lost+r.Refused > 0 || r.checker != nil && r.Repeated+r.Disordered > 0
}

func (m *machine) run(ctx context.Context, phase string) error {
	ctx, cancel := context.WithTimeout(ctx, 6*m.options.seconds+3*time.Minute)
	defer cancel()
	if m.text == nil {
		m.text = payload()
	}
	l := load{size: 1024, time: m.options.seconds, lanes: m.system.lanes(), pending: m.system.pending(), run: rand.Uint32(), text: m.text}
	if strings.HasSuffix(phase, "100b") {
		l.size = 100
	}
	if strings.HasSuffix(phase, "-5k") {
		l.rate = 5000
	}
	do := m.produce
	switch {
	case phase == "consume-1k":
		do = m.consume
	case strings.HasPrefix(phase, "live"), strings.HasPrefix(phase, "copy"):
		do = m.copied
	}
	r, err := do(ctx, phase, &l)
	if err != nil {
		return err
	}
	return m.report(ctx, phase, r)
}

var errInterrupted = errors.New("interrupted: what was cut is not kept")

// report prints a result and keeps it, unless it was cut.
func (m *machine) report(ctx context.Context, phase string, r *result) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errInterrupted
	}
	r.System, r.Phase, r.When = m.name, phase, time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	times := "" // where they were measured
	if r.P99 > 0 {
		times = fmt.Sprintf("p50 %7.1f p99 %7.1f ms", r.P50, r.P99)
	}
	fmt.Printf("%-12s %-21s %9.0f records/s %6.1f MB/s   %-26s   CPU s/GB %5.1f (clients %4.1f)   %5.0f MB",
		m.name, phase, r.Rate, r.MB, times, r.CPU, r.Client, r.RSS)
	if r.wrong() {
		fmt.Printf("   refused %d lost %d repeated %d disordered %d", r.Refused, r.Lost, r.Repeated, r.Disordered)
	}
	fmt.Println()
	_, err = m.results.Write(append(line, '\n'))
	return err
}

// make makes a new topic.
func (m *machine) make(ctx context.Context, phase string, copied bool) (here, there string, err error) {
	m.topics++
	return m.system.topic(ctx, fmt.Sprintf("%s-%d", phase, m.topics), copied)
}

// produce measures until all is answered.
func (m *machine) produce(ctx context.Context, phase string, l *load) (*result, error) {
	topic, _, err := m.make(ctx, phase, false)
	if err != nil {
		return nil, err
	}
	c, err := m.system.client(0)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := l.warm(ctx, c, topic); err != nil {
		return nil, err
	}
	meter := m.startMeter()
	answers := newLatencies(l.rate > 0)
	sent, refused := l.produce(ctx, c, topic, answers)
	r, err := meter.stop(sent, l.size)
	if err != nil {
		return nil, err
	}
	r.Refused = refused
	r.P50, r.P99 = answers.quantiles()
	r.checker = newChecker(l.run, l.lanes)
	if phase == "produce-1k" {
		m.stored, m.topic = *l, topic
	}
	return r, nil
}

// consume reads what produce-1k stored.
func (m *machine) consume(ctx context.Context, _ string, _ *load) (*result, error) {
	if m.topic == "" {
		return nil, errors.New("consume-1k reads what produce-1k stored: name both")
	}
	c, err := m.system.client(0)
	if err != nil {
		return nil, err
	}
	defer c.close()
	l := m.stored
	meter := m.startMeter()
	check := newChecker(l.run, l.lanes)
	reader := startReader(ctx, c, m.topic, check, nil)
	late := reader.reach(ctx, l.total)
	r, err := meter.stop(l.total, l.size)
	reader.end()
	if err = errors.Join(late, err); err != nil {
		return nil, err
	}
	r.checker, r.Lost = check, l.total-check.Received
	return r, nil
}

// copied measures from the first record to the arrival of the last one in the
// second cluster.
func (m *machine) copied(ctx context.Context, phase string, l *load) (*result, error) {
	here, there, err := m.make(ctx, phase, true)
	if err != nil {
		return nil, err
	}
	source, err := m.system.client(0)
	if err != nil {
		return nil, err
	}
	defer source.close()
	target, err := m.system.client(1)
	if err != nil {
		return nil, err
	}
	defer target.close()

	check := newChecker(l.run, l.lanes)
	arrivals := newLatencies(l.rate > 0)
	reader := startReader(ctx, target, there, check, arrivals)
	defer reader.end()
	// The copying has begun when the first record of each lane is there.
	if err := l.warm(ctx, source, here); err != nil {
		return nil, err
	}
	if err := reader.reach(ctx, int64(l.lanes)); err != nil {
		return nil, err
	}
	arrivals.reset()
	meter := m.startMeter()
	sent, refused := l.produce(ctx, source, here, newLatencies(false))
	wait, cancel := ctx, context.CancelFunc(func() {})
	if l.limit > 0 {
		wait, cancel = context.WithTimeout(ctx, l.limit)
	}
	late := reader.reach(wait, l.total-refused)
	cancel()
	r, err := meter.stop(min(sent, reader.count()-int64(l.lanes)), l.size)
	if err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // what comes twice comes soon after
	reader.end()
	r.Refused, r.checker = refused, check
	r.Lost = l.total - refused - check.Received
	r.P50, r.P99 = arrivals.quantiles()
	r.lastLate = arrivals.lastLate()
	if late != nil {
		fmt.Println(late)
	}
	return r, nil
}

// reader consumes a topic.
type reader struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error

	mu       sync.Mutex
	received int64
	want     int64
	reached  chan struct{}
}

// startReader starts to read. Arrivals, if not nil, takes how late records came.
func startReader(ctx context.Context, c client, topic string, check *checker, arrivals *latencies) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{cancel: cancel, ended: make(chan struct{}), reached: make(chan struct{}, 1)}
	go func() {
		defer close(r.ended)
		r.err = c.receive(ctx, topic, func(v []byte) {
			due, isNew := check.look(v)
			if !isNew {
				return
			}
			if arrivals != nil {
				arrivals.add(due)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.received++; r.received == r.want {
				r.reached <- struct{}{}
			}
		})
	}()
	return r
}

// reach waits until so many records have come.
func (r *reader) reach(ctx context.Context, want int64) error {
	r.mu.Lock()
	r.want = want // counted from the beginning of the topic
	there := r.received >= want
	if there {
		select {
		case <-r.reached:
		default:
		}
	}
	r.mu.Unlock()
	if there {
		return nil
	}
	select {
	case <-r.reached:
		return nil
	case <-r.ended:
		return errors.Join(errors.New("the consumer ended"), r.err)
	case <-ctx.Done():
		return fmt.Errorf("%d of %d records came: %w", r.received, want, ctx.Err())
	}
}

// count is how many records have come.
func (r *reader) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received
}

// end stops reading and waits until it has stopped.
func (r *reader) end() {
	r.cancel()
	<-r.ended
}
