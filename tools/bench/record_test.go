package main

import (
	"testing"
	"time"
)

// stamped gives a record with a header.
func stamped(lane int32, seq, run uint32) []byte {
	b := newBatch(1, 64, payload(), 0)
	b.lane = lane
	b.stamp(0, 1234, seq, run)
	return b.values[0]
}

func TestCheckerCountsWhatIsWrong(t *testing.T) {
	const run = 7
	tests := []struct {
		name                                      string
		records                                   [][]byte
		received, repeated, disordered, strangers int64
	}{
		{"in order", [][]byte{stamped(0, 0, run), stamped(1, 0, run), stamped(0, 1, run)}, 3, 0, 0, 0},
		{"repeated", [][]byte{stamped(0, 0, run), stamped(0, 1, run), stamped(0, 0, run)}, 2, 1, 0, 0},
		{"late", [][]byte{stamped(0, 0, run), stamped(0, 2, run), stamped(0, 1, run)}, 3, 0, 1, 0},
		{"of another run", [][]byte{stamped(0, 0, run+1)}, 0, 0, 0, 1},
		{"of no lane", [][]byte{stamped(2, 0, run)}, 0, 0, 0, 1},
		{"too short", [][]byte{stamped(0, 0, run)[:headerSize-1]}, 0, 0, 0, 1},
		{"far ahead, then repeated", [][]byte{stamped(1, 100_000, run), stamped(1, 100_000, run)}, 1, 1, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChecker(run, 2)
			for _, v := range test.records {
				if due, isNew := c.look(v); isNew && due != 1234 {
					t.Errorf("due at %d", due)
				}
			}
			if c.Received != test.received || c.Repeated != test.repeated || c.Disordered != test.disordered || c.Foreign != test.strangers {
				t.Errorf("received %d, repeated %d, disordered %d, foreign %d", c.Received, c.Repeated, c.Disordered, c.Foreign)
			}
		})
	}
}

func TestResultIsWrongWithAnyFault(t *testing.T) {
	for _, r := range []result{
		{Lost: 1, checker: &checker{}}, {Refused: 1, checker: &checker{}},
		{checker: &checker{Repeated: 1}}, {checker: &checker{Disordered: 1}},
	} {
		if !r.wrong() {
			t.Errorf("%+v, %+v is not wrong", r, r.checker)
		}
	}
	if r := (result{checker: &checker{Received: 1}}); r.wrong() {
		t.Error("wrong without a fault")
	}
}

func TestQuantiles(t *testing.T) {
	l := newLatencies(true)
	for i := range 100 {
		l.ms = append(l.ms, float64(100-i))
	}
	if p50, p99 := l.quantiles(); p50 != 51 || p99 != 100 {
		t.Errorf("p50 %g, p99 %g", p50, p99)
	}
	l.reset()
	l.add(time.Now().UnixNano())
	if p50, _ := l.quantiles(); p50 < 0 {
		t.Errorf("p50 %g", p50)
	}
}
