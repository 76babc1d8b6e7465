package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// fairSteps of fairStep are looked at, while both links have more than goes through.
	// The second half of them is counted: until then they find their shares.
	fairSteps = 12
	fairStep  = 5 * time.Second
	// fairAfter is what they get to find their rates, after all is produced.
	fairAfter = 5 * time.Second
)

// stream is what goes to one of the two regions.
type stream struct {
	topic    string
	from, to client
	load     *load
	check    *checker
	reader   *reader
	refused  int64
}

// fair measures how two links share a bottleneck: records for two regions are
// produced in a third, more than go through.
func (m *machine) fair(ctx context.Context, l line) error {
	s, ok := m.system.(*rhumb)
	if !ok {
		return errors.New("only regions of Rhumb share a line")
	}
	var streams []*stream
	noise := make([]byte, len(m.text)) // so that no link packs it
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	// What one link has is enough if the other gets nothing.
	records := int64(l.bits/8/lineSize*(fairSteps*fairStep+fairAfter).Seconds()) * 11 / 10
	for i, namespace := range []string{"copied", "third"} {
		topic, err := s.topicIn(ctx, namespace, "shared")
		if err != nil {
			return err
		}
		st := &stream{topic: topic, load: m.lineLoad()}
		st.load.records, st.load.time, st.load.text = records, 2*time.Minute, noise
		if st.from, err = m.system.client(0); err != nil {
			return err
		}
		defer st.from.close()
		if st.to, err = m.system.client(1 + i); err != nil {
			return err
		}
		defer st.to.close()
		st.check = newChecker(st.load.run, st.load.lanes)
		st.reader = startReader(ctx, st.to, topic, st.check, nil)
		defer st.reader.end()
		if err := st.load.warm(ctx, st.from, topic); err != nil {
			return err
		}
		if err := st.reader.reach(ctx, int64(st.load.lanes)); err != nil {
			return err
		}
		streams = append(streams, st)
	}
	var producing sync.WaitGroup
	for _, st := range streams {
		producing.Go(func() { _, st.refused = st.load.produce(ctx, st.from, st.topic, newLatencies(false)) })
	}
	producing.Wait()
	return m.measureShares(ctx, l, streams)
}

// measureShares counts what comes.
func (m *machine) measureShares(ctx context.Context, l line, streams []*stream) error {
	if err := pause(ctx, fairAfter); err != nil {
		return err
	}
	meter := m.startMeter()
	var all, got [2]int64
	worst := 1.0
	last := [2]int64{streams[0].reader.count(), streams[1].reader.count()}
	for n := range fairSteps {
		if err := pause(ctx, fairStep); err != nil {
			return err
		}
		var step [2]int64
		for i, st := range streams {
			now := st.reader.count()
			step[i], last[i] = now-last[i], now
			all[i] += step[i]
			if n >= fairSteps/2 {
				got[i] += step[i]
			}
			if now == st.load.total {
				return fmt.Errorf("region %d had all records before the time was up", i+1)
			}
		}
		if step[0]+step[1] == 0 {
			return fmt.Errorf("nothing came for %s", fairStep)
		}
		worst = min(worst, evenness(step))
		fmt.Printf("%s: %d and %d records/s\n", l.name, step[0]/int64(fairStep.Seconds()), step[1]/int64(fairStep.Seconds()))
	}
	r, err := meter.stop(all[0]+all[1], lineSize)
	if err != nil {
		return err
	}
	r.checker = &checker{}
	for _, st := range streams {
		st.reader.end()
		r.Repeated += st.check.Repeated
		r.Disordered += st.check.Disordered
		r.Received += st.check.Received
		r.Refused += st.refused
	}
	r.Share, r.WorstShare = evenness(got), worst
	fmt.Printf("%s: the smaller of the two got %.2f of the larger in the last %s, %.2f in the worst %s\n",
		l.name, r.Share, fairSteps/2*fairStep, worst, fairStep)
	return m.report(ctx, l.name+" copy", r)
}

// evenness is what the smaller of two is of the larger.
func evenness(of [2]int64) float64 {
	return float64(min(of[0], of[1])) / float64(max(of[0], of[1], 1))
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
