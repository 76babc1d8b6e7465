package wire

import (
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var testRemoved = Removed{Name: "eu-west", Number: 3, Version: 7, At: 1700000000123, Text: "region eu-west was removed; stop it"}

// TestGoldenRemoved: the reason of a close is a format as frames are.
func TestGoldenRemoved(t *testing.T) {
	const want = "removed region=eu-west number=3 version=7 at=1700000000123; region eu-west was removed; stop it"
	if got := testRemoved.Reason(); got != want {
		t.Errorf("it writes %q", got)
	}
	if got, err := ParseRemoved(want); err != nil || got != testRemoved {
		t.Errorf("it reads %+v, %v", got, err)
	}
	later := strings.Replace(want, "; ", " by=ann why=moved; ", 1)
	if got, err := ParseRemoved(later); err != nil || got.Version != 7 {
		t.Errorf("what a later version says is read as %+v, %v", got, err)
	}
}

func TestRemovedIsRefused(t *testing.T) {
	good := testRemoved.Reason()
	for name, change := range map[string][2]string{
		"no evidence":    {good, "region eu-west was removed"},
		"no words":       {"; ", ", "},
		"another word":   {"removed ", "moved "},
		"no name":        {"=eu-west", "=EU"},
		"number 0":       {"number=3", "number=0"},
		"number too big": {"number=3", "number=65537"},
		"version 0":      {"version=7", "version=0"},
		"version -1":     {"version=7", "version=-1"},
		"no time":        {"at=17", "at=x17"},
		"out of order":   {"number=3 version=7", "version=7 number=3"},
		"too long":       {"stop it", strings.Repeat("x", maxReason)},
	} {
		reason := strings.Replace(good, change[0], change[1], 1)
		if got, err := ParseRemoved(reason); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Errorf("%s: %q is read as %+v, %v", name, reason, got, err)
		}
	}
}

// FuzzRemoved: whatever the reason, it is refused, or read as something that is read the
// same again.
func FuzzRemoved(f *testing.F) {
	f.Add(testRemoved.Reason())
	f.Add("removed region=a number=1 version=1 at=-1 by=x; ")
	f.Fuzz(func(t *testing.T, reason string) {
		r, err := ParseRemoved(reason)
		if err != nil {
			return
		}
		r.Text = r.Text[:min(len(r.Text), 512)]
		if again, err := ParseRemoved(r.Reason()); err != nil || again != r {
			t.Fatalf("%+v becomes %+v, %v", r, again, err)
		}
	})
}
