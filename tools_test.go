package rhumb_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// MANY_TOPICS of the environment or the command line wins over TOPICS.
func TestMakeHonoursManyTopics(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	for _, c := range []struct {
		env, arg, want string
	}{
		{"", "", "50000"},
		{"", "TOPICS=5", "5"},
		{"", "MANY_TOPICS=7", "7"},
		{"MANY_TOPICS=7", "", "7"},
		{"MANY_TOPICS=7", "TOPICS=5", "7"},
	} {
		cmd := exec.Command("make", "-n", "many-topics", "GO=true")
		if c.arg != "" {
			cmd.Args = append(cmd.Args, c.arg)
		}
		for _, e := range os.Environ() {
			if name, _, _ := strings.Cut(e, "="); name != "TOPICS" && name != "MANY_TOPICS" && !strings.HasPrefix(name, "MAKE") {
				cmd.Env = append(cmd.Env, e)
			}
		}
		if c.env != "" {
			cmd.Env = append(cmd.Env, c.env)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "MANY_TOPICS="+c.want+" ") {
			t.Errorf("environment %q, argument %q: want %s, got %s (%v)", c.env, c.arg, c.want, out, err)
		}
	}
}

// Too few runs to compare are refused before anything is built.
func TestBenchRefusesTooFewRuns(t *testing.T) {
	for _, count := range []string{"0", "3", "many"} {
		cmd := exec.Command("bash", "tools/bench.sh")
		cmd.Env = append(os.Environ(), "COUNT="+count, "BASE=no-such-commit")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "at least 4") {
			t.Errorf("COUNT=%s: %v, %s", count, err, out)
		}
	}
}
