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
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/e2e/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// need finds a program, or skips the test.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed, and CI=true says that it must be", program)
	}
	t.Skipf("%s is not installed: apt-get install %s, or brew install %s", program, program, program)
	return ""
}

// kcat runs kcat to its end and gives what it printed.
func kcat(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(t, "kcat"), args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

// realFile gives n lines of Go's own source, each with its number in front, so
// that no line is empty and no two are the same.
func realFile(t *testing.T, n int) []string {
	t.Helper()
	var lines []string
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	for _, dir := range []string{"go/types", "net/http", "runtime", "cmd/compile/internal/ssa", "crypto/tls", "reflect", "time"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if lines = append(lines, fmt.Sprintf("%06d %s", len(lines), strings.TrimRight(line, "\r\n"))); len(lines) == n {
					return lines
				}
			}
		}
	}
	t.Fatalf("only %d lines of source under %s", len(lines), root)
	return nil
}

// size is how many lines a test sends: the real number, or a few in a hurry.
func size() int {
	if testing.Short() {
		return 5000
	}
	return 100_000
}

// wantEverywhere reads a topic with kcat in each region and compares it line by
// line. A producer that asked for no answer may have ended before the first region
// had read everything.
func wantEverywhere(t *testing.T, m *process.Mesh, topic string, want []string) {
	t.Helper()
	process.Until(t, "all is stored", func() bool { return end(t, m.Regions[0].Kafka, topic) >= int64(len(want)) })
	m.Verify(topic)
	for _, r := range m.Regions {
		got := strings.Split(strings.TrimSuffix(kcat(t, nil, "-C", "-b", r.Kafka, "-t", topic, "-e", "-q"), "\n"), "\n")
		if len(got) != len(want) {
			t.Errorf("%s holds %d lines, want %d", r.Name, len(got), len(want))
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("%s: line %d is %q, want %q", r.Name, i, got[i], want[i])
				break
			}
		}
	}
}

// kcat produces a file to us; eu and ap hold each line once, in order.
func TestI3KcatFileReachesEveryRegion(t *testing.T) {
	need(t, "kcat")
	m := process.Start(t, "us", "eu", "ap")
	lines := realFile(t, size())
	path := filepath.Join(t.TempDir(), "source.txt")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kcat(t, nil, "-P", "-b", m.Region("us").Kafka, "-t", "source", "-l", path)
	wantEverywhere(t, m, "source", lines)
}

// kcat with an idempotent producer feeds a region that is killed twice in the
// middle: no line is lost or doubled anywhere.
func TestI3KcatThroughTwoKills(t *testing.T) {
	need(t, "kcat")
	m := process.Start(t, "us", "eu", "ap")
	us := m.Region("us")
	lines := realFile(t, size())
	kcat(t, strings.NewReader(lines[0]+"\n"), "-P", "-b", us.Kafka, "-t", "source") // makes the topic

	cmd := exec.Command(need(t, "kcat"), "-P", "-E", "-b", us.Kafka, "-t", "source", "-X", "enable.idempotence=true",
		"-X", "reconnect.backoff.ms=20", "-X", "reconnect.backoff.max.ms=100", "-X", "retry.backoff.ms=20",
		"-X", "queue.buffering.max.messages=2000", "-X", "batch.num.messages=200")
	feed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	fed := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(feed)
		for _, line := range lines[1:] {
			w.WriteString(line + "\n") // its error stays for Flush
		}
		err := w.Flush()
		feed.Close()
		fed <- err
	}()
	for _, share := range []int{4, 2} {
		process.Until(t, "some of it is stored", func() bool { return end(t, us.Kafka, "source") > int64(len(lines)/share) })
		m.Kill("us")
		m.Restart("us")
	}
	if err := <-fed; err != nil {
		t.Fatalf("kcat does not read: %v\n%s", err, errs.String())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("kcat: %v\n%s", err, errs.String())
	}
	wantEverywhere(t, m, "source", lines)
}

// What kcat can be told to do differently.
func TestKcatOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("every look of kcat takes a second")
	}
	need(t, "kcat")
	m := process.Start(t, "us", "eu")
	us, eu := m.Region("us").Kafka, m.Region("eu").Kafka
	lines := realFile(t, 200)
	text := strings.Join(lines, "\n") + "\n"
	for _, options := range [][]string{
		{"-z", "gzip"}, {"-z", "snappy"}, {"-z", "lz4"}, {"-z", "zstd"},
		{"-X", "acks=0"}, {"-X", "acks=1"}, {"-X", "acks=all"}, {"-X", "enable.idempotence=true"},
	} {
		topic := strings.Trim(strings.Join(options, ""), "-X")
		topic = strings.ReplaceAll(topic, "=", "-")
		kcat(t, strings.NewReader(text), append([]string{"-P", "-b", us, "-t", topic}, options...)...)
		wantEverywhere(t, m, topic, lines)
	}
	kcat(t, strings.NewReader("k1:v1\nk2:v2\n"), "-P", "-b", us, "-t", "keyed", "-K:", "-H", "colour=red")
	m.Verify("keyed")
	if got := kcat(t, nil, "-C", "-b", eu, "-t", "keyed", "-e", "-q", "-f", "%k=%s %h\n"); got != "k1=v1 colour=red\nk2=v2 colour=red\n" {
		t.Errorf("keys and headers in eu: %q", got)
	}
	if got := kcat(t, nil, "-C", "-b", eu, "-t", "acks-all", "-e", "-q", "-o", "-3"); got != strings.Join(lines[197:], "\n")+"\n" {
		t.Errorf("the last three in eu: %q", got)
	}
	if got := kcat(t, nil, "-C", "-b", eu, "-t", "acks-all", "-q", "-o", "100", "-c", "1"); got != lines[100]+"\n" {
		t.Errorf("offset 100 in eu: %q", got)
	}
	if got := kcat(t, nil, "-Q", "-b", eu, "-t", "acks-all:0:1"); !strings.Contains(got, "acks-all [0] offset 0") {
		t.Errorf("offset by time in eu: %q", got)
	}
	if got := kcat(t, nil, "-L", "-b", eu); !strings.Contains(got, eu) || !strings.Contains(got, `topic "keyed" with 1 partitions`) {
		t.Errorf("metadata of eu: %s", got)
	}
}

// kcat -G: a group reads all, and the next time what came since, though the region
// was killed in between.
func TestKcatGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("every look of kcat takes a second")
	}
	need(t, "kcat")
	m := process.Start(t, "us")
	us := m.Region("us").Kafka
	lines := realFile(t, 400)
	kcat(t, strings.NewReader(strings.Join(lines[:200], "\n")+"\n"), "-P", "-b", us, "-t", "shared")
	read := func(want []string) {
		t.Helper()
		got := strings.Split(strings.TrimSuffix(kcat(t, nil, "-b", us, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "readers", "shared"), "\n"), "\n")
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the group read %d lines, want %d, from %q to %q", len(got), len(want), want[0], want[len(want)-1])
		}
	}
	read(lines[:200])
	kcat(t, strings.NewReader(strings.Join(lines[200:], "\n")+"\n"), "-P", "-b", us, "-t", "shared")
	m.Kill("us")
	m.Restart("us")
	read(lines[200:])
}
