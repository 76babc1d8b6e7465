package main

import (
	"bufio"
	"fmt"
	"io"
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
	"WARNING: DATA RACE", "panic: ", "fatal error: ", "[build failed]", "[setup failed]",
	"found unexpected goroutines", "test executed panic(nil)",
}

// failures reads what `go test` printed for several packages, in plain form. It gives
// an error for a run that nothing excuses, with the line that says why.
func failures(r io.Reader, never []string) ([]failure, error) {
	var out []failure
	var tests []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		for _, word := range inexcusable {
			if strings.Contains(line, word) {
				return nil, fmt.Errorf("not excused: %s", line)
			}
		}
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "--- FAIL: ") && len(fields) >= 3:
			tests = append(tests, fields[2])
		case strings.HasPrefix(line, "FAIL\t") && len(fields) >= 2:
			pkg := fields[1]
			if slices.ContainsFunc(never, func(end string) bool { return strings.HasSuffix(pkg, end) }) {
				return nil, fmt.Errorf("not excused: %s replays seeds", pkg)
			}
			if len(tests) == 0 {
				return nil, fmt.Errorf("not excused: %s failed without a test that did", pkg)
			}
			out, tests = append(out, failure{pkg, tests}), nil
		case strings.HasPrefix(line, "ok  \t"):
			tests = nil
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(tests) > 0:
		return nil, fmt.Errorf("not excused: the run ended within %s", tests[0])
	case len(out) == 0:
		return nil, fmt.Errorf("not excused: no test failed, the run did")
	}
	return out, nil
}
