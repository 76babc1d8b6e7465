package cli

import (
	"testing"
	"time"
)

// A limit is shown as somebody wrote it.
func TestLimitsKeepTheirUnits(t *testing.T) {
	for n, want := range map[int64]string{20e6: "20 MB/s", 10 << 20: "10 MiB/s", 512 << 10: "512 KiB/s", 1000: "1 KB/s", 1025: "1025 B/s",
		1024000: "1024 KB/s", 1500e3: "1500 KB/s", 3e9: "3 GB/s", 1 << 40: "1 TiB/s"} {
		if got := limitText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// The last error of what is well again is not shown for ever, and with its age.
func TestLastErrorHasItsAge(t *testing.T) {
	now := time.UnixMilli(10_000_000)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	for _, c := range []struct {
		name, text, state, want string
		at, since               int64
	}{
		{"none", "", "idle", "", 0, ago(time.Hour)},
		{"of an older node", "timeout", "idle", "timeout", 0, ago(time.Hour)},
		{"down", "timeout", "disconnected", "1h0m0s ago: timeout", ago(time.Hour), ago(2 * time.Hour)},
		{"just up", "timeout", "idle", "5m0s ago: timeout", ago(5 * time.Minute), ago(time.Second)},
		{"up for a while", "timeout", "idle", "", ago(5 * time.Minute), ago(2 * time.Minute)},
		{"up, and a new one", "runs twice", "flowing", "3s ago: runs twice", ago(3 * time.Second), ago(time.Hour)},
		{"clock of the node ahead", "timeout", "idle", "0s ago: timeout", ago(-time.Second), ago(time.Hour)},
	} {
		if got := lastError(c.text, c.at, c.since, c.state, now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRoundTripForPeople: no zero for what was not measured, nor for what is short.
func TestRoundTripForPeople(t *testing.T) {
	for rtt, want := range map[float64]string{0: "", -1: "", 0.0003: "300µs", 0.00042345: "420µs", 0.0094: "9.4ms", 0.0801234: "80ms"} {
		if got := tripText(rtt); got != want {
			t.Errorf("%v s: %q, want %q", rtt, got, want)
		}
	}
}
