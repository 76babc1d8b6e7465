// Package bubble runs tests in the virtual time of [testing/synctest], where the race
// detector can follow them.
package bubble

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. Under the race detector the process uses one processor while
// any bubble runs: two goroutines of a bubble that find channel timers due in the same
// moment run them in one context of the race detector (the one of the bubble's timers, in
// (*timer).unlockAndRun of Go 1.25 and 1.26), which it survives only if they take turns.
// It crashes otherwise, in places that have nothing to do with the test. Which accesses
// race does not depend on how many processors there are.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer alone()()
	synctest.Test(t, f)
}
