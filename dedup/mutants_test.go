//go:build mutants

package dedup

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/mutant/hunt"
	"pgregory.net/rapid"
)

// TestEveryMutantIsFound plants each known bug of this package in turn.
func TestEveryMutantIsFound(t *testing.T) {
	hunt.Every(t, "dedup", map[string]func(*rapid.T){
		"accept rule":   checkAcceptRule,
		"borders":       func(t *rapid.T) { checkBorders(t) },
		"skip borders":  func(t *rapid.T) { checkSkipBorders(t) },
		"floor":         func(t *rapid.T) { checkFloor(t) },
		"recent points": checkRecentPoints,
		"producer":      checkProducer,
		"last sequence": func(t *rapid.T) { checkLastSequence(t) },
	})
}

// TestMutantsAreOffByDefault: the tag alone changes nothing.
func TestMutantsAreOffByDefault(t *testing.T) {
	for _, n := range mutant.All("dedup") {
		if mutant.On(n) {
			t.Errorf("%s is on", n)
		}
	}
}
