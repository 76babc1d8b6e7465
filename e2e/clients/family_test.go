package clients

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// family is a kind of client; its script lies in the folder of its name.
type family struct {
	name    string
	command func(t *testing.T) []string
}

var families = []family{
	{"aiokafka", pythonScript("aiokafka")},
	{"franz-go", goProgram("franz-go")},
	{"java", func(t *testing.T) []string { return append(java(t, "java/classes"), "Client") }},
	{"kafka-python", pythonScript("kafka-python")},
	{"kafkajs", func(t *testing.T) []string {
		modules := installed(t, "kafkajs", "kafkajs/node_modules")
		return []string{"env", "NODE_PATH=" + modules, need(t, "node"), "kafkajs/client.js"}
	}},
	{"librdkafka", pythonScript("librdkafka")},
	{"sarama", goProgram("sarama")},
}

// stepNames are the steps that each family takes.
var stepNames = []string{"topics", "configs", "produce-none", "produce-gzip", "produce-snappy", "produce-lz4", "produce-zstd", "idempotent",
	"group", "commits", "time", "delete-records", "groups", "delete-topics"}

// missing skips the test, or fails it where nobody can help.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format+", and CI=true says that it must be there", args...)
	}
	t.Skipf("SKIP: "+format, args...)
}

// installed gives the path of what install.sh put into the cache folder.
func installed(t *testing.T, name, path string) string {
	t.Helper()
	dir := os.Getenv("RHUMB_CLIENTS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "rhumb", "clients")
	}
	path = filepath.Join(dir, path)
	_, stamp := os.Stat(filepath.Join(dir, name, ".stamp"))
	if _, err := os.Stat(path); err != nil || stamp != nil {
		missing(t, "%s is not installed: run e2e/clients/install.sh %s", path, name)
	}
	return path
}

func pythonScript(name string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		return []string{installed(t, "python", "python/bin/python"), name + "/client.py"}
	}
}

// java gives a command up to the name of the class to run.
func java(t *testing.T, classes string) []string {
	path := []string{filepath.Join(filepath.Dir(installed(t, "java", "java/lib")), "lib", "*")}
	if classes != "" {
		path = append(path, installed(t, "java", classes))
	}
	return []string{need(t, "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.configurationFile=java/log4j2.yaml", "-cp",
		strings.Join(path, ":")}
}

// goProgram builds the program of a folder, which may be a module of its own.
func goProgram(name string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		path := filepath.Join(t.TempDir(), name)
		build := exec.Command("go", "build", "-o", path, ".")
		build.Dir = name
		if out, err := build.CombinedOutput(); err != nil {
			missing(t, "%s cannot be built (%v): %s", name, err, out)
		}
		return []string{path}
	}
}

// script is a command that runs.
type script struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stdin  io.WriteCloser
	errors bytes.Buffer
}

func startScript(ctx context.Context, t *testing.T, command ...string) *script {
	t.Helper()
	s := &script{t: t, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin, s.lines, s.cmd.Stderr = stdin, bufio.NewScanner(stdout), &s.errors
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// await reads lines until one matches, and gives the number in it.
func (s *script) await(pattern string) int {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for s.lines.Scan() {
		if m := re.FindStringSubmatch(s.lines.Text()); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
		if strings.HasPrefix(s.lines.Text(), "FAIL") {
			s.t.Error(s.lines.Text())
		}
	}
	s.t.Fatalf("the script ended before it printed %q: %v\n%s", pattern, s.cmd.Wait(), tail(s.errors.String()))
	return 0
}

// tail is the end of a long output.
func tail(text string) string { return text[max(0, len(text)-8000):] }

func TestClientSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a region and a client for each family")
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			command := f.command(t)
			ctx, cancel := context.WithTimeout(context.Background(), 5*process.Limit)
			defer cancel()
			var bootstrap string
			if *recordKafka {
				bootstrap = startKafka(t)
			} else {
				bootstrap = process.Start(t, "us").Region("us").Kafka
			}
			s := startScript(ctx, t, append(command, "steps", bootstrap)...)
			done := map[string]bool{}
			for s.lines.Scan() {
				line := s.lines.Text()
				t.Log(line)
				if name, ok := strings.CutPrefix(line, "ok "); ok {
					name, _, _ = strings.Cut(name, ":")
					done[name] = true
				}
			}
			err := s.cmd.Wait()
			for _, name := range stepNames {
				if !done[name] {
					t.Errorf("step %s was not done (%v)\n%s", name, err, tail(s.errors.String()))
				}
			}
		})
	}
}

// The region is killed twice under the load of each client, which has to log in
// again each time. Nothing that was
// acknowledged is lost, nothing is doubled, all is in order, and the group goes
// on to the end.
func TestClientThroughTwoKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a region twice for each family")
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			command := f.command(t)
			ctx, cancel := context.WithTimeout(context.Background(), 5*process.Limit)
			defer cancel()
			m := process.Start(t, "us")
			us := m.Region("us")
			login := "SCRAM-SHA-512 alice secret"
			if f.name == "sarama" { // which has no SCRAM of its own
				login = "PLAIN alice secret"
			}
			s := startScript(ctx, t, slices.Concat([]string{"env", "KAFKA_LOGIN=" + login}, command, []string{"load", addLogin(t, m), "numbers"})...)
			acked := s.await(`^acked (\d+)`)
			for range 2 {
				s.awaitAcked(acked + 400)
				m.Kill("us")
				m.Restart("us")
				acked = s.awaitAcked(acked + 401)
			}
			s.stdin.Close()
			produced := s.await(`^produced (\d+)`)
			again := s.await(`^ok load: the group read \d+, (\d+) of them again`)
			for s.lines.Scan() {
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", f.name, err, tail(s.errors.String()))
			}
			t.Logf("%d records; the group read %d of them again", produced, again)
			wantNumbers(t, us.Kafka, produced)
		})
	}
}

func (s *script) awaitAcked(n int) int {
	s.t.Helper()
	for {
		if acked := s.await(`^acked (\d+)`); acked >= n {
			return acked
		}
	}
}

// wantNumbers: each number below n is in its partition, once and in order.
func wantNumbers(t *testing.T, kafka string, n int) {
	t.Helper()
	parts := process.Read(t, kafka, "numbers")
	for p := range 3 {
		next := p
		for _, r := range parts[int32(p)] {
			if got := string(r.Value); got != fmt.Sprint(next) {
				t.Fatalf("partition %d, offset %d holds %s, want %d", p, r.Offset, got, next)
			}
			next += 3
		}
		if next < n {
			t.Errorf("partition %d ends before %d of %d", p, next, n)
		}
	}
}
