//go:build mutants

// Package hunt runs models against planted bugs. It exists only with the build
// tag "mutants", for tests.
package hunt

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/mutant"
	"pgregory.net/rapid"
)

// Models are what the tests of a package hold its code against.
type Models struct {
	Random map[string]func(*rapid.T) // run with as many random cases as in an ordinary test run
	Fixed  map[string]func(rapid.TB) // run once
}

// Every switches on each bug of a package in turn and runs the models until one
// of them fails. A bug that all models let through fails the test. First all
// models must pass with no bug, so that what they find is the bug.
func Every(t *testing.T, pkg string, models Models) {
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.shrinktime", "0s")
	if found := models.firstToFail(); found != "" {
		t.Fatalf("model %q fails with no bug planted", found)
	}
	for _, bug := range mutant.All(pkg) {
		restore := mutant.Activate(bug)
		found := models.firstToFail()
		restore()
		if found == "" {
			t.Errorf("%s survives: %s", bug, mutant.What(bug))
			continue
		}
		t.Logf("%s: found by %q", bug, found)
	}
}

// firstToFail runs the models, random ones first, and gives the name of the one
// that fails, "" if none does.
func (m Models) firstToFail() string {
	for _, name := range slices.Sorted(maps.Keys(m.Random)) {
		if fails(func(v *verdict) { rapid.Check(v, m.Random[name]) }) {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Fixed)) {
		if fails(func(v *verdict) { m.Fixed[name](v) }) {
			return name
		}
	}
	return ""
}

func set(t *testing.T, name, value string) {
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, old); err != nil {
			t.Error(err)
		}
	})
}

// fails reports whether a run fails its test. A panic of the code under test
// counts as one.
func fails(run func(*verdict)) bool {
	v, ended := &verdict{}, make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if recover() != nil {
				v.failed = true
			}
		}()
		run(v)
	}()
	<-ended
	return v.failed
}

// verdict is a test that only remembers whether it failed.
type verdict struct{ failed bool }

func (v *verdict) Helper()               {}
func (v *verdict) Name() string          { return "hunt" }
func (v *verdict) Logf(string, ...any)   {}
func (v *verdict) Log(...any)            {}
func (v *verdict) Skipf(string, ...any)  { runtime.Goexit() }
func (v *verdict) Skip(...any)           { runtime.Goexit() }
func (v *verdict) SkipNow()              { runtime.Goexit() }
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Error(...any)          { v.failed = true }
func (v *verdict) Fatalf(string, ...any) { v.FailNow() }
func (v *verdict) Fatal(...any)          { v.FailNow() }
func (v *verdict) Fail()                 { v.failed = true }
func (v *verdict) Failed() bool          { return v.failed }

func (v *verdict) FailNow() {
	v.failed = true
	runtime.Goexit()
}
