//go:build race

package admin_test

// underRace: a sync.Pool forgets at random what it was given, so what is allocated tells
// nothing.
const underRace = true
