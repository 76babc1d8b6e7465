// Steady judges a failed run of the project's tests: it reads what `go test` printed
// and runs the tests that failed again, alone, with the same flags.
//
//	make race 2>&1 | tee log || go -C tools/steady run . -log log -- -race -short
//
// A test is called unstable, and named, if it failed once and then passes each of
// -times runs. Unstable tests are faults to be mended, which the run lists; they
// do not hold up a change that has nothing to do with them. Nothing else is excused:
// not a data race, a panic, a time limit, a build that failed, a run that did not come to
// its end in every package, a test of an invariant (TestI…) or of a package whose tests
// replay seeds, a test that fails again, nor more than -most tests at once.
package main
