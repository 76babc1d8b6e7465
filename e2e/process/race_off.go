//go:build !race

package process

// raceFlags is empty: see race_on.go.
var raceFlags []string
