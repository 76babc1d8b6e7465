//go:build mutants

package paths

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rhumbmq/rhumb/internal/mutant/hunt"
)

// TestEveryMutantIsFound plants each known bug of this package in turn.
func TestEveryMutantIsFound(t *testing.T) {
	hunt.Every(t, "paths", hunt.Models{
		Random: map[string]func(*rapid.T){"choice": checkChoice},
		Fixed:  map[string]func(rapid.TB){"stalled": checkStalled},
	})
}
