//go:build mutants

package session

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/mutant/hunt"
	"pgregory.net/rapid"
)

// TestEveryMutantIsFound plants each known bug of this package in turn.
func TestEveryMutantIsFound(t *testing.T) {
	hunt.Every(t, "session", hunt.Models{
		Random: map[string]func(*rapid.T){
			"nasty link":      checkNastyLink,
			"restored source": checkRestored,
		},
		Fixed: map[string]func(rapid.TB){"stories": playAll},
	})
}

func playAll(t rapid.TB) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, f := range files {
		play(t, strings.TrimSuffix(filepath.Base(f), ".txt"))
	}
}
