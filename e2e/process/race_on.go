//go:build race

package process

// raceFlags builds the binary with the race detector where the tests run with it.
var raceFlags = []string{"-race"}
