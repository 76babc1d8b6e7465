package process

import (
	"bytes"
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
	"github.com/rhumbmq/rhumb/internal/porttest"
)

// section gives the commands that a heading of docs/operating.md shows, up to
// the next heading, as one script.
func section(t *testing.T, heading string) string { return sectionOf(t, "operating.md", heading) }

// sectionOf is section for another page.
func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/%s has no section %q", page, heading)
	}
	body, _, _ := strings.Cut(rest, "\n##")
	var script strings.Builder
	for line := range strings.Lines(body) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			script.WriteString(command)
		}
	}
	return script.String()
}

// moved moves every port of four regions that a text names, and gives a machine that
// does much else more time to wait.
func moved(text string, offset int) string {
	pairs := []string{"--wait 1m\n", "--wait 3m\n"}
	for i := range 4 {
		p := config.PortsOf(i, 0)
		for _, port := range []int{p.Kafka, p.HTTP, p.Geo} {
			pairs = append(pairs, fmt.Sprintf(":%d", port), fmt.Sprintf(":%d", port+offset))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// TestThreeRegionsFromNothing types the handbook's section into a shell. Each
// command must succeed, and what was published in one region is read in another.
func TestThreeRegionsFromNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("three processes and a dozen commands take their time")
	}
	script := section(t, "Three regions from nothing")
	for _, command := range []string{"rhumb certs init", "rhumb certs issue", "rhumb server", "rhumb namespace create", "rhumb verify us eu"} {
		if !strings.Contains(script, command) {
			t.Errorf("the section has no %q", command)
		}
	}
	offset := porttest.Offset(t, 3)
	out, err := shell(t, moved(script, offset), "RHUMB_ADDR=http://127.0.0.1:"+fmt.Sprint(config.PortsOf(0, 0).HTTP+offset))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	for _, want := range []string{"made certs/ca.crt", "region-ap.crt", "created tenant public", "created namespace public/default", "hello"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestRegionJoinsAndLeavesAsTheHandbookSays types the section on a fourth region into the
// directory of the first three.
func TestRegionJoinsAndLeavesAsTheHandbookSays(t *testing.T) {
	if testing.Short() {
		t.Skip("four processes and two dozen commands take their time")
	}
	mesh, _, found := strings.Cut(section(t, "Three regions from nothing"), "kill $(cat pids)")
	join := section(t, "A region joins, and leaves")
	if !found || !strings.Contains(join, "rhumb region remove sa") {
		t.Fatalf("the sections have changed:\n%s", join)
	}
	offset := porttest.Offset(t, 4)
	out, err := shell(t, moved(mesh+join+"rhumb verify us eu --wait 1m\nkill $(cat pids) && wait\n", offset),
		"RHUMB_ADDR=http://127.0.0.1:"+fmt.Sprint(config.PortsOf(0, 0).HTTP+offset))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"registered region sa, number 4", "every record that was published there is confirmed", "number 4 is retired", "bye"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// shell runs a script in an empty directory, with rhumb in its path, up to the
// first command that fails. Nothing that it started outlives the test.
func shell(t *testing.T, script string, env ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 5*Limit)
	defer cancel()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-e", "-v", file)
	cmd.Dir = dir
	cmd.Env = environment(append(env, "PATH="+filepath.Dir(Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH")))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = Limit
	err := cmd.Run()
	if cmd.Process != nil {
		if bad := kill(); err == nil && !errors.Is(bad, syscall.ESRCH) {
			err = errors.New("something still ran at the end of the script")
		}
	}
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			fmt.Fprintf(&out, "-- %s\n%s\n", filepath.Base(log), lastLines(string(text), 20))
		}
	}
	return out.String(), err
}
