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

// Every switches on each bug of a package in turn and runs the models, each with
// as many random cases as an ordinary test run, until one of them fails. A bug
// that all models let through fails the test. First all models must pass with no
// bug, so that what they find is the bug.
func Every(t *testing.T, pkg string, models map[string]func(*rapid.T)) {
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.shrinktime", "0s")
	names := slices.Sorted(maps.Keys(models))
	for _, name := range names {
		if fails(models[name]) {
			t.Fatalf("model %q fails with no bug planted", name)
		}
	}
	for _, bug := range mutant.All(pkg) {
		restore := mutant.Activate(bug)
		i := slices.IndexFunc(names, func(name string) bool { return fails(models[name]) })
		restore()
		if i < 0 {
			t.Errorf("%s survives: %s", bug, mutant.What(bug))
			continue
		}
		t.Logf("%s: found by %q", bug, names[i])
	}
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

// fails reports whether a model fails. A panic of the code under test counts.
func fails(model func(*rapid.T)) bool {
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(v, model)
	}()
	<-done
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
