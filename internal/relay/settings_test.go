package relay

import (
	"testing"
	"time"
)

func TestSettingsWith(t *testing.T) {
	base := Settings{Loss: .5, Jitter: time.Millisecond}
	got, err := base.With("rtt=80ms, loss=1%,rate=100mbit,reorder=0.02,duplicate=3%,queue=9000,cut=true")
	want := Settings{Delay: 40 * time.Millisecond, Jitter: time.Millisecond, Loss: .01, Rate: 100e6, Reorder: .02,
		Duplicate: .03, Queue: 9000, Cut: true}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if back, err := (Settings{}).With(got.String()); err != nil || back != got {
		t.Errorf("settings read back as %+v, %v; want %+v", back, err, got)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, list := range []string{"", "rtt", "rtt=", "rtt=-1s", "rtt=2h", "loss=101%", "loss=NaN", "loss=x", "rate=-1",
		"rate=1e30gbit", "rate=NaN", "queue=-1", "cut=maybe", "color=red", "rtt=1s,,loss=1%"} {
		if got, err := (Settings{}).With(list); err == nil {
			t.Errorf("%q was taken as %+v", list, got)
		}
	}
}

// TestRateNeedsAUnit: "rate=5" is more often a slip than five bits per second.
func TestRateNeedsAUnit(t *testing.T) {
	if _, err := (Settings{}).With("rate=5"); err == nil {
		t.Error("a rate without a unit was accepted")
	}
	if s, err := (Settings{Rate: 7}).With("rate=0"); err != nil || s.Rate != 0 {
		t.Errorf("rate=0 must lift the limit: %v, %v", s, err)
	}
}
