package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// failure is one package's failed tests, top-level ones only.
type failure struct {
	pkg   string
	tests []string
}

// inexcusable are words of a run that no further run takes back.
var inexcusable = []string{
	"WARNING: DATA RACE", "race detected during execution", "panic: ", "fatal error: ", "[build failed]", "[setup failed]",
	"signal: ", "exit status ", "test executed panic(nil)",
}

// invariant are tests that hold an invariant of the design, most of them against faults
// at random: one failure is a finding, whatever the next runs say.
var invariant = regexp.MustCompile(`^TestI[0-9]`)

// failures reads what `go test` printed for packages, in plain form. It gives an error
// for a run that nothing excuses, with the line that says why: also for one in which a
// package has no result, since make or go gave up before it.
func failures(r io.Reader, packages, never []string) ([]failure, error) {
	var out []failure
	var tests []string
	missing := map[string]bool{}
	for _, p := range packages {
		missing[p] = true
	}
	before := "" // the line before, coverage apart
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		for _, word := range inexcusable {
			if strings.Contains(line, word) {
				return nil, fmt.Errorf("not excused: %s", line)
			}
		}
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "--- FAIL: ") && len(fields) >= 3:
			if invariant.MatchString(fields[2]) {
				return nil, fmt.Errorf("not excused: %s holds an invariant", fields[2])
			}
			tests = append(tests, fields[2])
		case strings.HasPrefix(line, "FAIL\t") && len(fields) >= 2:
			pkg := fields[1]
			delete(missing, pkg)
			if before != "FAIL" {
				return nil, fmt.Errorf("not excused: %s did not come to its end", pkg)
			}
			if slices.ContainsFunc(never, func(end string) bool { return strings.HasSuffix(pkg, end) }) {
				return nil, fmt.Errorf("not excused: %s replays seeds", pkg)
			}
			if len(tests) == 0 {
				return nil, fmt.Errorf("not excused: %s failed without a test that did", pkg)
			}
			out, tests = append(out, failure{pkg, tests}), nil
		case strings.HasPrefix(line, "ok  \t"), strings.HasPrefix(line, "?   \t"):
			delete(missing, fields[1])
			tests = nil
		}
		if !strings.HasPrefix(line, "coverage: ") {
			before = line
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(missing) > 0:
		return nil, fmt.Errorf("not excused: %d packages have no result, such as %s", len(missing), slices.Min(slices.Collect(maps.Keys(missing))))
	case len(tests) > 0:
		return nil, fmt.Errorf("not excused: the run ended within %s", tests[0])
	case len(out) == 0:
		return nil, fmt.Errorf("not excused: no test failed, the run did")
	}
	return out, nil
}
