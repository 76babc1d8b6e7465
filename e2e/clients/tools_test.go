package clients

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// acceptDifferences is for who has looked at them.
var acceptDifferences = flag.Bool("accept", false, "take how a region differs from Kafka now as how it may differ; the reasons stay to be written")

const (
	kafkaGolden = "tools/kafka.golden"
	differences = "tools/differences.golden"
)

// Kafka's own command-line tools print of a region what they print of Kafka 4.3,
// but for ids, times and sizes, and for what tools/differences.golden holds with
// its reasons. What they print of Kafka is kept: a test needs no Kafka broker.
func TestKafkaTools(t *testing.T) {
	if testing.Short() {
		t.Skip("types a hundred commands")
	}
	if *recordKafka {
		keep(t, kafkaGolden, runTools(t, startKafka(t)))
		return
	}
	java(t, "java/classes") // or skip before a region starts
	m := process.Start(t, "us")
	want, known := readTranscript(t, kafkaGolden), readTranscript(t, differences)
	got := runTools(t, m.Region("us").Kafka)
	if len(got) != len(want) {
		t.Fatalf("%d commands were typed, %s has %d: record it again with -kafka", len(got), kafkaGolden, len(want))
	}
	reasons := map[string]string{}
	for _, c := range known {
		reasons[c.name()] = c.reason
	}
	var differ []command
	for i, g := range got {
		if g.command != want[i].command {
			t.Fatalf("command %d is %q, %s has %q: record it again with -kafka", i, g.command, kafkaGolden, want[i].command)
		}
		if strings.HasPrefix(g.command, "broker-api-versions") {
			want[i].output = only(want[i].output, g.output)
		}
		if g.output != want[i].output {
			g.reason = reasons[g.name()]
			differ = append(differ, g)
		}
	}
	if *acceptDifferences {
		keep(t, differences, differ)
		return
	}
	for _, d := range differ {
		i := slices.IndexFunc(known, func(k command) bool { return k.name() == d.name() })
		switch {
		case i < 0:
			w := want[slices.IndexFunc(want, func(w command) bool { return w.name() == d.name() })]
			t.Errorf("%s\nprints of a region:\n%s\nof Kafka:\n%s", d.command, d.output, w.output)
		case known[i].output != d.output:
			t.Errorf("%s\ndiffers from Kafka, and from how it may differ:\n%s\nmay differ so:\n%s", d.command, d.output, known[i].output)
		case d.reason == "":
			t.Errorf("%s\ndiffers without a reason in %s", d.command, differences)
		}
	}
	for _, k := range known {
		if !slices.ContainsFunc(differ, func(d command) bool { return d.name() == k.name() }) {
			t.Errorf("%s\nprints what it prints of Kafka now: remove it from %s", k.command, differences)
		}
	}
	t.Logf("%d commands, %d print something else than of Kafka", len(got), len(differ))
}

// only leaves out the APIs that a region does not serve: docs/compat-kafka.md
// tells of them.
func only(want, got string) string {
	var out strings.Builder
	for line := range strings.Lines(want) {
		if name, _, api := strings.Cut(line, "): "); !api || strings.Contains(got, name+"): ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// command is a command that was typed, and what it printed.
type command struct {
	command, output string
	reason          string // why it differs
	nth             string // "" but "(2)" for the second of the same words
}

func (c command) name() string { return c.command + c.nth }

// parseTranscript splits what Tools.java prints, or a golden file.
func parseTranscript(text string) (out []command) {
	count := map[string]int{}
	reason := ""
	for line := range strings.Lines(text) {
		if r, ok := strings.CutPrefix(line, "# "); ok {
			reason += r
			continue
		}
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			c = strings.TrimSuffix(c, "\n")
			count[c]++
			out = append(out, command{command: c, reason: strings.TrimSpace(reason), nth: strings.Repeat("'", count[c]-1)})
			reason = ""
		} else if len(out) > 0 && strings.TrimSpace(line) != "" {
			out[len(out)-1].output += line
		}
	}
	return out
}

func readTranscript(t *testing.T, path string) []command {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseTranscript(string(text))
}

func keep(t *testing.T, path string, commands []command) {
	t.Helper()
	var b strings.Builder
	for _, c := range commands {
		b.WriteString("\n")
		for line := range strings.Lines(c.reason) {
			b.WriteString("# " + strings.TrimSpace(line) + "\n")
		}
		b.WriteString("$ " + c.command + "\n" + c.output)
	}
	if err := os.WriteFile(path, []byte(strings.TrimPrefix(b.String(), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands in %s", len(commands), path)
}

// runTools types tools/commands.txt against a server.
func runTools(t *testing.T, bootstrap string) []command {
	t.Helper()
	args := java(t, "java/classes")
	for i, a := range args { // what tools log would stand between what they print
		args[i] = strings.Replace(a, "java/log4j2.yaml", "tools/log4j2.yaml", 1)
	}
	lib := filepath.Join(filepath.Dir(installed(t, "java", "java/lib")), "tools")
	args = slices.Insert(args, 1, "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dtools.lib="+lib, "-Duser.timezone=UTC")
	ctx, cancel := context.WithTimeout(context.Background(), 5*process.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], "Tools", "tools/commands.txt", bootstrap, kafkaNode)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	commands := parseTranscript(out.String())
	for i := range commands {
		commands[i].output = normal(commands[i], bootstrap)
	}
	return commands
}

// What differs between any two servers or runs.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^\tat .*\n|^Caused by: .*\n|^\t\.\.\. \d+ more\n`), ""},
	{regexp.MustCompile(`(?m)^.*: UNSUPPORTED,?\n`), ""},
	{regexp.MustCompile(`usable: (\d+)\],?`), "usable: $1]"},                         // the last one has no comma
	{regexp.MustCompile(`(DescribeLogDirs\(35\): 1 to )\d \[usable: \d\]`), "${1}N"}, // 5 tells of cordoned folders, which a region has not
	{regexp.MustCompile(`TopicId: \S+`), "TopicId: ID"},
	{regexp.MustCompile(`Cluster ID: \S+`), "Cluster ID: ID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`"timestamp":\d+`), `"timestamp":TIME`},
	{regexp.MustCompile(`"size":\d+`), `"size":SIZE`},
	{regexp.MustCompile(`"logDir":"[^"]*"`), `"logDir":"DIR"`},
	{regexp.MustCompile(`/tmp/rhumb-tools-\d+`), "DIR"},
	{regexp.MustCompile(`Elr: [^\t\n]*\tLastKnownElr: [^\t\n]*`), "Elr: \tLastKnownElr: "},
	{regexp.MustCompile(`"avg_throughput":[0-9.]+`), `"avg_throughput":N`},
	{regexp.MustCompile(` +`), " "}, // columns are as wide as what stands in them
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

// perfNumbers are those of the two performance tests.
var perfNumbers = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}|\d+(\.\d+)?( ms|\b)`)

func normal(c command, bootstrap string) string {
	host, port, _ := strings.Cut(bootstrap, ":")
	out := strings.NewReplacer(bootstrap, "BROKER", host+" "+port, "BROKER").Replace(c.output)
	for _, v := range varying {
		out = v.pattern.ReplaceAllString(out, v.instead)
	}
	if strings.Contains(c.command, "perf-test") {
		out = perfNumbers.ReplaceAllString(out, "N")
	}
	lines := slices.Collect(strings.Lines(out))
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	// Tables come out of hash maps.
	switch tool, _, _ := strings.Cut(c.command, " "); tool {
	case "consumer-groups", "groups", "topics", "delete-records":
		slices.Sort(lines)
	}
	return strings.Join(lines, "")
}
