//go:build mutants

package groups

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/mutant/hunt"
	"pgregory.net/rapid"
)

// TestEveryMutantIsFound plants each known bug of this package in turn.
func TestEveryMutantIsFound(t *testing.T) {
	hunt.Every(t, "groups", hunt.Models{Random: map[string]func(*rapid.T){"group": inBubble(t, checkModel)}})
}
