package main

import (
	"testing"
	"time"
)

func TestParseLine(t *testing.T) {
	good := map[string]line{
		"200ms/1%":            {rtt: 200 * time.Millisecond, loss: 0.01},
		"20ms":                {rtt: 20 * time.Millisecond},
		"80ms/100mbit/shared": {rtt: 80 * time.Millisecond, bits: 1e8, shared: true},
		"80ms/bursts/0.1%":    {rtt: 80 * time.Millisecond, loss: 0.001, bursts: true},
		"0s/cut":              {cut: true},
	}
	for text, want := range good {
		want.name = text
		if got, err := parseLine(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1%", "80ms/x", "80ms/101%", "80ms/-1%", "80ms/NaN%", "80ms/-5mbit", "80ms/shared", "2h", "-1ms", "80ms/mbit"} {
		if got, err := parseLine(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if lines, err := parseLines(defaultLines); err != nil || len(lines) != 8 {
		t.Errorf("%d lines by default, %v", len(lines), err)
	}
}

// wireOf gives a wire with a line, and when that was set.
func wireOf(t *testing.T, text string) (*wire, time.Time) {
	t.Helper()
	l, err := parseLine(text)
	if err != nil {
		t.Fatal(err)
	}
	w, start := newWire(1), time.Unix(1000, 0)
	w.set(l, &bottleneck{}, start)
	return w, start
}

func TestWireDelaysAndLoses(t *testing.T) {
	w, now := wireOf(t, "80ms/10%")
	const n = 20_000
	lost := 0
	for range n {
		due, ok := w.fate(now, 1500)
		if !ok {
			lost++
		} else if due != now.Add(40*time.Millisecond) {
			t.Fatalf("due after %s", due.Sub(now))
		}
	}
	if lost < n/10*8/10 || lost > n/10*12/10 {
		t.Errorf("%d of %d lost", lost, n)
	}
}

func TestWireOfARateQueuesAndDrops(t *testing.T) {
	w, now := wireOf(t, "0s/12mbit") // 1,500 bytes take a millisecond
	for i := range 51 {
		due, ok := w.fate(now, 1500)
		if want := now.Add(time.Duration(i+1) * time.Millisecond); !ok || due != want {
			t.Fatalf("packet %d: %t, due after %s", i, ok, due.Sub(now))
		}
	}
	if _, ok := w.fate(now, 1500); ok {
		t.Error("more waits than the queue takes")
	}
	if due, ok := w.fate(now.Add(time.Second), 1500); !ok || due != now.Add(time.Second+time.Millisecond) {
		t.Error("what waited is gone after a second")
	}
}

func TestWiresShareABottleneck(t *testing.T) {
	l, err := parseLine("0s/12mbit/shared")
	if err != nil {
		t.Fatal(err)
	}
	now, neck := time.Unix(1000, 0), &bottleneck{}
	a, b := newWire(1), newWire(2)
	a.set(l, neck, now)
	b.set(l, neck, now)
	a.fate(now, 1500)
	if due, _ := b.fate(now, 1500); due != now.Add(2*time.Millisecond) {
		t.Errorf("the second wire's packet is through after %s", due.Sub(now))
	}
}

func TestWireLosesInBurstsAndWhenCut(t *testing.T) {
	w, start := wireOf(t, "80ms/bursts")
	for _, at := range []struct {
		after   time.Duration
		arrives bool
	}{{0, false}, {burstTime - 1, false}, {burstTime, true}, {burstEvery - 1, true}, {burstEvery, false}, {5*burstEvery + burstTime, true}} {
		if _, ok := w.fate(start.Add(at.after), 100); ok != at.arrives {
			t.Errorf("after %s: arrives %t", at.after, ok)
		}
	}
	j := &joint{wires: [][]*wire{{w}}}
	j.cut(true)
	if _, ok := w.fate(start.Add(time.Second), 100); ok {
		t.Error("a cut line carries")
	}
	j.cut(false)
	if _, ok := w.fate(start.Add(time.Second), 100); !ok {
		t.Error("a line that is back does not carry")
	}
}

func TestDestination(t *testing.T) {
	p := make([]byte, 20)
	p[0] = 0x45
	copy(p[16:], []byte{10, 77, 0, 2})
	if to, ok := destination(p); !ok || to != 1 {
		t.Errorf("region %d, %t", to, ok)
	}
	for what, change := range map[string]func([]byte) []byte{
		"short":           func(p []byte) []byte { return p[:19] },
		"IPv6":            func(p []byte) []byte { p[0] = 0x65; return p },
		"another network": func(p []byte) []byte { p[16] = 11; return p },
		"no host":         func(p []byte) []byte { p[19] = 0; return p },
		"nothing":         func([]byte) []byte { return nil },
	} {
		if to, ok := destination(change(append([]byte(nil), p...))); ok {
			t.Errorf("%s goes to region %d", what, to)
		}
	}
}
