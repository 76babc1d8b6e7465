//go:build race

package sim

// underRace: the race detector makes a run several times slower.
const underRace = true
