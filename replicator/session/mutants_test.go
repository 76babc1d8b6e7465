//go:build mutants

package session

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/mutant/hunt"
	"pgregory.net/rapid"
)

// TestEveryMutantIsFound plants each known bug of this package in turn.
func TestEveryMutantIsFound(t *testing.T) {
	hunt.Every(t, "session", map[string]func(*rapid.T){
		"nasty link":      checkNastyLink,
		"restored source": checkRestored,
	})
}
