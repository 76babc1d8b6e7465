package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
	"github.com/rhumbmq/rhumb/internal/porttest"
)

// machine is one of the three of docs/first-mesh.md: a shell with a home of its own
// and an address of the loopback network.
type machine struct {
	t      *testing.T
	name   string // of its region
	host   string // in the page, such as 10.0.0.1
	home   string
	change *strings.Replacer
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    output
	ended  chan struct{}
	blocks int
}

// fakeSCP copies files between the machines' homes, as scp does between machines.
const fakeSCP = `#!/bin/sh
for last; do :; done
to=$HOMES/${last%%:*}/${last#*:}
while [ $# -gt 1 ]; do cp "$1" "$to" || exit 1; shift; done
`

// newMachine starts a shell. It gives up at the first command that fails.
func newMachine(t *testing.T, homes, tools, name, host string, change *strings.Replacer, ip string) *machine {
	t.Helper()
	m := &machine{t: t, name: name, host: host, home: filepath.Join(homes, ip), change: change, out: output{wrote: make(chan struct{}, 1)}, ended: make(chan struct{})}
	if err := os.MkdirAll(m.home, 0o755); err != nil {
		t.Fatal(err)
	}
	m.cmd = exec.Command("sh", "-e")
	m.cmd.Dir = m.home
	m.cmd.Env = environment([]string{"HOME=" + m.home, "HOMES=" + homes, "CONSUL_HTTP_ADDR=" + ip + ":8500",
		"PATH=" + strings.Join([]string{tools, filepath.Dir(Binary(t)), os.Getenv("PATH")}, string(os.PathListSeparator))})
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.cmd.WaitDelay = Limit
	var err error
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.cmd.Wait(); close(m.ended) }()
	t.Cleanup(func() {
		syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL) // an error means that nothing is left
		<-m.ended
		if !t.Failed() {
			return
		}
		t.Logf("-- machine %s:\n%s", name, lastLines(m.out.String(), 40))
		logs, _ := filepath.Glob(filepath.Join(m.home, "rhumb", "*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("-- %s, %s:\n%s", name, filepath.Base(log), lastLines(string(text), 15))
		}
	})
	return m
}

// types types a block of commands and waits until the last one has ended.
func (m *machine) types(block string) {
	m.t.Helper()
	m.blocks++
	mark := fmt.Sprintf("-- %s has done block %d", m.name, m.blocks)
	fmt.Fprintf(m.stdin, "%s\necho '%s'\n", m.change.Replace(block), mark)
	timeout := time.After(5 * Limit) // some blocks wait several times themselves
	for !strings.Contains(m.out.String(), mark) {
		select {
		case <-m.out.wrote:
		case <-m.ended:
			m.t.Fatalf("on machine %s a command failed:\n%s", m.name, block)
		case <-timeout:
			m.t.Fatalf("%s has not typed within %s\n%s", m.name, 5*Limit, block)
		}
	}
}

// step is a block of the page and the machines that it is for.
type step struct {
	where string // each, first, second
	text  string
}

var wherePattern = regexp.MustCompile(`On (each|the first|the second) machine`)

// steps reads the page: a block belongs to the machines that the last paragraph
// before it names.
func steps(t *testing.T, page string) []step {
	t.Helper()
	_, page, _ = strings.Cut(page, "\n## Consul\n")
	page, _, ok := strings.Cut(page, "\n## With ACLs\n")
	if !ok {
		t.Fatal("docs/first-mesh.md has no sections Consul and With ACLs")
	}
	var out []step
	where, open := "", false
	for line := range strings.Lines(page) {
		if found := wherePattern.FindAllStringSubmatch(line, -1); found != nil {
			where = strings.TrimPrefix(found[len(found)-1][1], "the ")
		}
		command, is := strings.CutPrefix(line, "    ")
		switch {
		case is && open:
			out[len(out)-1].text += command
		case is:
			out = append(out, step{where, command})
		}
		open = is
	}
	return out
}

// TestFirstMeshOnThreeMachines types docs/first-mesh.md into three shells, each with
// a loopback address of its own. Each command must succeed.
func TestFirstMeshOnThreeMachines(t *testing.T) {
	slow(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a network of loopback addresses without more ado")
	}
	text, err := os.ReadFile("../../docs/first-mesh.md")
	if err != nil {
		t.Fatal(err)
	}
	who := regexp.MustCompile(`export REGION=(\w+) IP=([\d.]+)`).FindAllStringSubmatch(string(text), -1)
	if len(who) != 3 {
		t.Fatalf("the page names machines %v", who)
	}
	homes, tools := t.TempDir(), t.TempDir()
	if err := os.Symlink(consultest.Binary(t), filepath.Join(tools, "consul")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "scp"), []byte(fakeSCP), 0o755); err != nil {
		t.Fatal(err)
	}
	hosts := porttest.Hosts(t, 3)
	var machines []*machine
	for i, w := range who {
		pairs := []string{"127.0.0.1", hosts[i], "--wait 1m\n", "--wait 3m\n"} // the page's time is for machines of their own
		for j, other := range who {
			pairs = append(pairs, other[2], hosts[j])
		}
		m := newMachine(t, homes, tools, w[1], w[2], strings.NewReplacer(pairs...), hosts[i])
		m.types(w[0])
		machines = append(machines, m)
	}
	for _, s := range steps(t, string(text)) {
		switch s.where {
		case "each":
			for _, m := range machines {
				m.types(s.text)
			}
		case "first":
			machines[0].types(s.text)
		case "second":
			machines[1].types(s.text)
		default:
			t.Fatalf("the page does not say on which machine to type\n%s", s.text)
		}
	}
	out := machines[0].out.String()
	t.Logf("%s", out)
	for _, want := range []string{"made certs/ca.crt", "created tenant public", "created namespace public/default", "hello", "rhumb-kafka", "region=eu", "store down", "acme"} {
		if !strings.Contains(out, want) {
			t.Errorf("the first machine shows no %q", want)
		}
	}
}
