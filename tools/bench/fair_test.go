package main

import "testing"

func TestEvenness(t *testing.T) {
	for _, test := range []struct {
		of   [2]int64
		want float64
	}{{[2]int64{50, 100}, 0.5}, {[2]int64{100, 50}, 0.5}, {[2]int64{7, 7}, 1}, {[2]int64{0, 3}, 0}, {[2]int64{}, 0}} {
		if got := evenness(test.of); got != test.want {
			t.Errorf("%v: %g", test.of, got)
		}
	}
}
