//go:build mutants

package mutant

import "sync/atomic"

var active atomic.Value // of Name; the empty name is no bug

func init() { active.Store(Name("")) }

// On reports whether the named bug is switched on.
func On(n Name) bool { return active.Load() == n }

// Activate switches the named bug on, instead of any other, until restore is
// called. It is for one test at a time.
func Activate(n Name) (restore func()) {
	if _, known := what[n]; !known {
		panic("mutant: no bug is named " + string(n))
	}
	active.Store(n)
	return func() { active.Store(Name("")) }
}
