package mutant

import "testing"

func TestEveryBugSaysWhatItIs(t *testing.T) {
	for _, pkg := range []string{"dedup", "session", "groups"} {
		if len(All(pkg)) < 10 {
			t.Errorf("%s has %d planted bugs, want at least 10", pkg, len(All(pkg)))
		}
		for _, n := range All(pkg) {
			if What(n) == "" {
				t.Errorf("%s has no words", n)
			}
		}
	}
	if What("session/no-such-bug") != "" {
		t.Error("an unknown name has words")
	}
}
