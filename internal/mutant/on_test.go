//go:build mutants

package mutant

import "testing"

func TestOneBugAtATime(t *testing.T) {
	restore := Activate(GapKeepsFloor)
	if !On(GapKeepsFloor) || On(SkipMovesFloor) {
		t.Error("want exactly the activated bug on")
	}
	restore()
	if On(GapKeepsFloor) {
		t.Error("the bug stays on after restore")
	}
}
