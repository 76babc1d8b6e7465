package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/e2e/process"
)

// reader types what the README shows, as a stranger would.
type reader struct {
	*testing.T
	dir string // where bin/rhumb is
	dev *process.Dev
}

// TestReadme runs every command of the README's tour, in order. Each must do what
// the page says.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("a dozen commands and clients take their time")
	}
	r := &reader{T: t, dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(r.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	commands := tour(t)
	if len(commands) < 15 {
		t.Fatalf("only %d commands found: %q", len(commands), commands)
	}
	for _, c := range commands {
		r.enter(c)
	}
	r.dev.Signal(syscall.SIGINT)
	if code := r.dev.Wait(); code != 0 || len(r.dev.Leftovers()) > 0 {
		t.Errorf("Ctrl-C: exit code %d, left %q\n%s", code, r.dev.Leftovers(), r.dev.Output())
	}
}

// tour gives the commands between "## Try it" and the next heading.
func tour(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Try it\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	for line := range strings.Lines(section) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			out = append(out, strings.TrimSpace(command))
		}
	}
	return out
}

// enter does what a line of the tour says.
func (r *reader) enter(command string) {
	r.Helper()
	switch {
	case command == "go run ./cmd/rhumb dev":
		r.dev = process.StartDev(r.T)
	case command == "make build":
		if err := os.Symlink(process.Binary(r.T), filepath.Join(r.dir, "bin", "rhumb")); err != nil {
			r.Fatal(err)
		}
	case strings.Contains(command, "region kill"): // the page says that it was started so
		r.dev.Signal(syscall.SIGINT)
		r.dev.Wait()
		r.dev = process.StartDev(r.T, "--processes")
		r.run(command)
	case strings.Contains(command, "kcat") && !has("kcat") && os.Getenv("CI") != "true":
		r.Logf("not run, kcat is not installed: %s", command)
	default:
		r.run(command)
	}
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func (r *reader) run(command string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*process.Limit)
	defer cancel()
	p := config.PortsOf(0, 0)
	// The page's time is for a machine that does little else.
	typed := strings.ReplaceAll(command, "--wait 10s", "--wait "+process.Limit.String())
	for i := range 3 {
		typed = strings.ReplaceAll(typed, fmt.Sprintf("127.0.0.1:%d", p.Kafka+100*i), r.dev.Address(i, p.Kafka))
	}
	enter := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", typed)
		cmd.Dir, cmd.Env = r.dir, append(os.Environ(), r.dev.Env()...)
		return cmd.CombinedOutput()
	}
	out, err := enter()
	// A new topic is in the other regions within seconds, for which a person's hands are
	// slow enough: not so this test, right after the mesh came up.
	for err != nil && ctx.Err() == nil && strings.Contains(string(out), "Unknown topic or partition") {
		out, err = enter()
	}
	var exit *exec.ExitError
	// Without --wait, "cannot tell yet" is an answer, too.
	late := strings.Contains(command, " verify ") && !strings.Contains(command, "--wait") && errors.As(err, &exit) && exit.ExitCode() == 2
	if err != nil && !late {
		r.Fatalf("%s: %v\n%s", command, err, out)
	}
	r.Logf("$ %s\n%s", command, out)
	reads := strings.Contains(command, "kcat -C") || strings.Contains(command, "consume")
	if reads && !strings.Contains(string(out), "hello") {
		r.Errorf("%s: no hello:\n%s", command, out)
	}
}
