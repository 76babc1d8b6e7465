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
	hunt.Every(t, "dedup", hunt.Models{
		Random: map[string]func(*rapid.T){
			"accept rule":   checkAcceptRule,
			"recent points": checkRecentPoints,
			"producer":      checkProducer,
		},
		Fixed: map[string]func(rapid.TB){
			"borders":       checkBorders,
			"skip borders":  checkSkipBorders,
			"floor":         checkFloor,
			"last sequence": checkLastSequence,
		},
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
