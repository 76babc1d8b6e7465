//go:build !race

package admin_test

const underRace = false
