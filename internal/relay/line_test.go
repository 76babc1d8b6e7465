package relay

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

// arrival is one datagram as it came out of a line.
type arrival struct {
	after time.Duration
	text  string
}

// play sends one datagram per millisecond over a line in virtual time and gives
// what came out.
func play(t *testing.T, seed uint64, s Settings, n int) (got []arrival) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		l := NewLine(seed, 1, s, func(d []byte) { got = append(got, arrival{time.Since(start), string(d)}) })
		done := make(chan struct{})
		go func() { defer close(done); _ = l.Run(ctx) }()
		tick := time.NewTicker(time.Millisecond)
		for i := range n {
			l.Send(fmt.Appendf(nil, "%06d", i))
			<-tick.C
		}
		tick.Stop()
		<-time.After(time.Minute)
		cancel()
		<-done
		if st := l.Stats(); st.Sent != uint64(n) || st.Delivered != uint64(len(got)) {
			t.Errorf("stats %+v, want %d sent and %d delivered", st, n, len(got))
		}
	})
	return got
}

func TestLineIsDeterministicBySeed(t *testing.T) {
	s := Settings{Delay: 20 * time.Millisecond, Jitter: 9 * time.Millisecond, Loss: .1, Reorder: .05, Duplicate: .05}
	a, b, c := play(t, 7, s, 500), play(t, 7, s, 500), play(t, 8, s, 500)
	if !slices.Equal(a, b) {
		t.Error("two runs of one seed differ")
	}
	if slices.Equal(a, c) {
		t.Error("two seeds gave the same run")
	}
}

func TestLineDelaysInOrder(t *testing.T) {
	got := play(t, 1, Settings{Delay: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}, 200)
	if len(got) != 200 {
		t.Fatalf("%d arrived, want all 200", len(got))
	}
	for i, a := range got {
		sent := time.Duration(i) * time.Millisecond
		if a.text != fmt.Sprintf("%06d", i) || a.after < sent+50*time.Millisecond || a.after > sent+80*time.Millisecond {
			t.Fatalf("datagram %d: %+v", i, a)
		}
	}
}

func TestLineLosesDoublesReorders(t *testing.T) {
	const n = 10000
	within := func(what string, got int, want float64) {
		t.Helper()
		if f := float64(got) / n; f < want*.8 || f > want*1.2 {
			t.Errorf("%s: share %.3f, want about %.3f", what, f, want)
		}
	}
	within("loss", n-len(play(t, 3, Settings{Loss: .1}, n)), .1)
	within("duplicate", len(play(t, 3, Settings{Duplicate: .05}, n))-n, .05)
	got := play(t, 3, Settings{Delay: 10 * time.Millisecond, Reorder: .05}, n)
	overtaken := 0
	for i := 1; i < len(got); i++ {
		if got[i].text < got[i-1].text {
			overtaken++
		}
	}
	within("reorder", overtaken, .05)
}

func TestLineRateAndQueue(t *testing.T) {
	// 6 bytes each millisecond are 48 kbit/s: half of them fit through 24 kbit/s,
	// and the first dropped one waits for no more than the queue.
	got := play(t, 1, Settings{Rate: 24000, Queue: 300}, 2000)
	if n := len(got); n < 1000 || n > 1100 {
		t.Errorf("%d arrived, want half of 2000 and a queue full", n)
	}
	last := got[len(got)-1]
	if last.after < 2000*time.Millisecond || last.after > 2110*time.Millisecond {
		t.Errorf("last one after %s, want the queue's 100 ms at most", last.after)
	}
}

func TestLineCutDropsWhatIsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		arrived := 0
		l := NewLine(1, 1, Settings{Delay: time.Second}, func([]byte) { arrived++ })
		done := make(chan struct{})
		go func() { defer close(done); _ = l.Run(ctx) }()
		l.Send([]byte("lost with the cut"))
		l.Set(Settings{Cut: true})
		l.Send([]byte("lost in the cut"))
		l.Set(Settings{})
		l.Send([]byte("after the heal"))
		<-time.After(2 * time.Second)
		cancel()
		<-done
		if st := l.Stats(); arrived != 1 || st.Dropped != 2 {
			t.Errorf("%d arrived, stats %+v; want 1, and 2 dropped", arrived, st)
		}
	})
}
