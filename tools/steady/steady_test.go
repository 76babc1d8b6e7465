package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const twoFailed = `ok  	example.com/a	1.0s
=== RUN   TestX
    --- FAIL: TestX/sub (0.00s)
--- FAIL: TestX (0.12s)
    --- FAIL: TestX/sub (0.12s)
        x_test.go:1: the regions differ
--- FAIL: TestY (0.00s)
FAIL
FAIL	example.com/b	3.551s
ok  	example.com/c	(cached)
--- FAIL: TestZ (0.00s)
FAIL
coverage: 1 %
FAIL	example.com/d	0.2s
FAIL
make: *** [Makefile:33: race] Error 1
`

func TestFailuresAreTopLevelTestsOfTheirPackages(t *testing.T) {
	packages := []string{"example.com/a", "example.com/b", "example.com/c", "example.com/d"}
	got, err := failures(strings.NewReader(twoFailed), packages, []string{"/e2e/sim"})
	want := []failure{{"example.com/b", []string{"TestX", "TestY"}}, {"example.com/d", []string{"TestZ"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
}

func TestWhatIsNotExcused(t *testing.T) {
	for name, out := range map[string]string{
		"a data race":      "WARNING: DATA RACE\n--- FAIL: TestX (0.1s)\nFAIL\nFAIL\texample.com/a\t1s\n",
		"a panic":          "--- FAIL: TestX (0.1s)\npanic: boom [recovered]\nFAIL\nFAIL\texample.com/a\t1s\n",
		"an invariant":     "--- FAIL: TestI3Faults (0.1s)\nFAIL\nFAIL\texample.com/a\t1s\n",
		"a kill":           "--- FAIL: TestX (0.1s)\nsignal: killed\nFAIL\nFAIL\texample.com/a\t1s\n",
		"an early end":     "--- FAIL: TestX (0.1s)\nFAIL\texample.com/a\t1s\n",
		"a lost package":   "--- FAIL: TestX (0.1s)\nFAIL\nFAIL\texample.com/b\t1s\nmake: *** [consul] Error 1\n",
		"a time limit":     "panic: test timed out after 30m0s\nFAIL\texample.com/a\t1800s\n",
		"a build":          "FAIL\texample.com/a [build failed]\n",
		"no test":          "FAIL\texample.com/a\t1s\n",
		"a seed":           "ok  \texample.com/a\t1s\n--- FAIL: TestX (0.1s)\nFAIL\nFAIL\texample.com/e2e/sim\t1s\n",
		"the end is cut":   "ok  \texample.com/b\t1s\n--- FAIL: TestX (0.1s)\n",
		"another program":  "staticcheck: no such file\n",
		"an older package": "--- FAIL: TestX (0.1s)\nok  \texample.com/a\t1s\nFAIL\texample.com/b\t1s\n",
	} {
		if got, err := failures(strings.NewReader(out), []string{"example.com/a"}, []string{"/e2e/sim"}); err == nil {
			t.Errorf("%s: excused as %v", name, got)
		}
	}
}

// TestJudgeRunsAgain holds real runs of go test against what is said of them.
func TestJudgeRunsAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.26.0\n")
	write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\nfunc TestBad(t *testing.T) { t.Fatal() }\nfunc TestGone(t *testing.T) { t.Skip() }\n")
	for name, c := range map[string]struct {
		failed []string
		ok     bool
	}{
		"passes now":   {[]string{"TestGood"}, true},
		"skips now":    {[]string{"TestGone"}, false},
		"is not there": {[]string{"TestNo"}, false},
		"fails again":  {[]string{"TestGood", "TestBad"}, false},
		"too many":     {[]string{"TestGood", "TestGood", "TestGood"}, false},
	} {
		out := ""
		for _, test := range c.failed {
			out += "--- FAIL: " + test + " (0.00s)\n"
		}
		write("log", out+"FAIL\nFAIL\texample.com/m\t0.1s\n")
		if err := judge(filepath.Join(dir, "log"), dir, "/e2e/sim", 3, 2, []string{"-short"}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
