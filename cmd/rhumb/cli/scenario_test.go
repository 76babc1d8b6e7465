package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestScenarios runs testdata/*.txt: stories of a mesh of the in-memory regions us,
// eu and ap, whose API servers are real. A line is one of
//
//	rhumb ARGS…               run the command line; it must exit 0 (rhumb:N: with N)
//	stdout|stderr REGEXP      the last command printed this (with ! before: did not)
//	cmp stdout|stderr FILE    it printed exactly this file of the archive
//	stdin TEXT                what the next command reads
//	env NAME=VALUE            $us, $eu, $ap are the regions' URLs
//	publish REGION TOPIC N…   batches of N records each, into partition 0
//	expanding REGION TOPIC N  a record of N MiB, compressed to little, into partition 0
//	copy FROM TO TOPIC        what a link would do
//	relay FROM TO TOPIC       what a link over an edge that forwards would do
//	rebuild REGION TOPIC      the log begins again with nothing, as after a lost disk
//	remove REGION             the other regions do not know it any more
//	lose REGION TOPIC N       batch N of the log vanishes, figures stay
//	gap REGION TOPIC FROM A B a gap record for offsets A to B of region FROM
//	refuse REGION TOPIC N TEXT  the link of us to REGION shows that offset N is refused
//	diverge REGION TOPIC FROM C W  its copy in FROM is the same up to C, and has other records up to W
//	divergecopy REGION TOPIC FROM C W OF  its copy of what OF published differs from that in FROM likewise
//	trim REGION TOPIC N       the log starts at offset N
//	token REGION TOKEN        its API asks for a token from now on
//	stop REGION               its API is gone
//	backup REGION             its configuration store is copied
//	restore REGION            its configuration store is taken back to that copy
//	tempdir NAME              $NAME is an empty directory
//	file PATH                 the archive's file of that last name is written there
//	register AT REGION…       AT's store knows these regions
//	datadir NAME              $NAME is a data directory of a node with some topics
//	delete PATH               the file is gone
//	damage NAME               a byte in the middle of its first log file flips
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScenario(t, archive)
			for n, line := range strings.Split(string(archive.Comment), "\n") {
				words := split(line)
				if len(words) == 0 {
					continue
				}
				if err := s.do(words); err != nil {
					t.Fatalf("%s:%d: %s: %v\nstdout:\n%s\nstderr:\n%s", file, n+1, line, err, &s.stdout, &s.stderr)
				}
			}
		})
	}
}

type scenario struct {
	t       *testing.T
	files   map[string]string
	regions map[string]*admintest.Region
	servers map[string]*httptest.Server
	backups map[string]func() // by region

	stdin          string
	stdout, stderr bytes.Buffer
}

func newScenario(t *testing.T, archive *txtar.Archive) *scenario {
	s := &scenario{t: t, files: map[string]string{}, regions: map[string]*admintest.Region{}, servers: map[string]*httptest.Server{}, backups: map[string]func(){}}
	for _, f := range archive.Files {
		s.files[f.Name] = string(f.Data)
	}
	var entries []admin.RegionEntry
	for i, name := range []string{"us", "eu", "ap"} {
		r := admintest.New(rhumb.RegionName(name), rhumb.RegionNumber(i+1))
		s.regions[name] = r
		s.serve(name, "")
		entries = append(entries, admin.RegionEntry{Name: r.Identity.Name, Number: r.Identity.Number, State: "active",
			Admin: []string{s.servers[name].URL}})
	}
	for _, r := range s.regions {
		var edges []admin.Edge
		for _, from := range entries {
			for _, to := range entries {
				if from.Name != to.Name {
					edges = append(edges, admin.Edge{Tenant: "public", Namespace: "default", From: from.Name, To: to.Name})
				}
			}
		}
		r.SetMesh(entries, edges)
	}
	s.regions["us"].SetLinks(admintest.Link(s.regions["eu"]))
	for _, name := range []string{"RHUMB_TOKEN", "RHUMB_CACERT", "RHUMB_CERT", "RHUMB_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("RHUMB_ADDR", s.servers["us"].URL)
	return s
}

func (s *scenario) serve(name, token string) {
	cfg := s.regions[name].Config()
	cfg.Token = token
	server, err := admin.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if running := s.servers[name]; running != nil {
		running.Config.Handler = server.Handler()
		return
	}
	s.servers[name] = httptest.NewServer(server.Handler())
	s.t.Cleanup(s.servers[name].Close)
}

// do runs one line.
func (s *scenario) do(words []string) error {
	command, code, _ := strings.Cut(words[0], ":")
	if command == "rhumb" {
		want, _ := strconv.Atoi(code)
		return s.rhumb(want, words[1:])
	}
	switch command {
	case "!":
		if s.do(words[1:]) == nil {
			return fmt.Errorf("it is there")
		}
	case "stdout", "stderr":
		text := map[string]string{"stdout": s.stdout.String(), "stderr": s.stderr.String()}[command]
		if !regexp.MustCompile("(?m)" + words[1]).MatchString(text) {
			return fmt.Errorf("no match")
		}
	case "cmp":
		got := s.stdout.String()
		if words[1] == "stderr" {
			got = s.stderr.String()
		}
		if trimLines(got) != trimLines(s.expand(s.files[words[2]])) {
			return fmt.Errorf("%s is not %s", words[1], words[2])
		}
	case "stdin":
		s.stdin = strings.ReplaceAll(words[1], `\n`, "\n")
	case "env":
		name, value, _ := strings.Cut(words[1], "=")
		s.t.Setenv(name, s.expand(value))
	case "token":
		s.serve(words[1], words[2])
	case "register":
		for _, name := range words[2:] {
			doc := configstore.Region{Name: rhumb.RegionName(name), State: configstore.RegionActive, DataUUID: s.regions[name].Identity.Data}
			if _, err := s.regions[words[1]].Config().Documents.Writer().RegisterRegion(s.t.Context(), doc, 0); err != nil {
				return err
			}
		}
	case "backup":
		s.backups[words[1]] = s.regions[words[1]].Backup()
	case "restore":
		s.backups[words[1]]()
	case "tempdir":
		s.t.Setenv(words[1], s.t.TempDir())
	case "file":
		path := s.expand(words[1])
		return os.WriteFile(path, []byte(s.files[filepath.Base(path)]), 0o600)
	case "remove":
		for _, r := range s.regions {
			r.ForgetRegion(rhumb.RegionName(words[1]))
		}
	case "datadir":
		dir := s.t.TempDir()
		s.t.Setenv(words[1], dir)
		makeDataDir(s.t, dir)
	case "damage":
		return damage(os.Getenv(words[1]))
	case "delete":
		return os.Remove(os.ExpandEnv(words[1]))
	case "stop":
		s.servers[words[1]].Close()
	default:
		return s.plant(words)
	}
	return nil
}

// trimLines forgets blanks at the ends of lines, which editors do too.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// mistakeOfFile is what is said of one line of a file.
var mistakeOfFile = regexp.MustCompile(`^rhumb: \S+(:\d+: |: and \d+ more )`)

func (s *scenario) rhumb(want int, args []string) error {
	root := &cobra.Command{Use: "rhumb"}
	AddCommands(root)
	s.stdout.Reset()
	s.stderr.Reset()
	root.SetOut(&s.stdout)
	root.SetErr(&s.stderr)
	root.SetIn(strings.NewReader(s.stdin))
	s.stdin = ""
	for i := range args {
		args[i] = s.expand(args[i])
	}
	if code := Run(s.t.Context(), root, args, &s.stderr); code != want {
		return fmt.Errorf("exit code %d, want %d", code, want)
	}
	lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
	mistakes := !slices.ContainsFunc(lines, func(l string) bool { return !mistakeOfFile.MatchString(l) }) // each in a line of its own
	if len(lines) > 1 && !mistakes || strings.Contains(s.stderr.String(), ".;") {
		return fmt.Errorf("what it says to people is not one clean line")
	}
	return s.parses(args, want)
}

// parses holds what -o json and -o yaml print to what they promise: documents.
func (s *scenario) parses(args []string, code int) error {
	i := slices.Index(args, "-o")
	if i < 0 || i+1 == len(args) || code == exitUnknown {
		return nil
	}
	var next func(any) error
	switch args[i+1] {
	case "json":
		next = json.NewDecoder(strings.NewReader(s.stdout.String())).Decode
	case "yaml":
		next = yaml.NewDecoder(strings.NewReader(s.stdout.String())).Decode
	default:
		return nil
	}
	documents := 0
	for {
		var v any
		switch err := next(&v); {
		case err == io.EOF && documents == 0 && code == 0:
			return fmt.Errorf("-o %s printed nothing", args[i+1])
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("-o %s printed something else: %w", args[i+1], err)
		}
		if _, text := v.(string); text {
			return fmt.Errorf("-o %s printed a text", args[i+1])
		}
		documents++
	}
}

func (s *scenario) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if server := s.servers[name]; server != nil {
			return server.URL
		}
		return os.Getenv(name)
	})
}

// plant changes what a region holds.
func (s *scenario) plant(words []string) error {
	var n []int
	for _, w := range words[3:] {
		if v, err := strconv.Atoi(w); err == nil {
			n = append(n, v)
		}
	}
	switch words[0] {
	case "publish":
		for _, count := range n {
			var records []codec.PlainRecord
			for i := range count {
				records = append(records, codec.PlainRecord{Timestamp: 1_700_000_000_000, Value: fmt.Appendf(nil, "%s-%d", words[1], i)})
			}
			s.regions[words[1]].Log(words[2], 0).Publish(records...)
		}
	case "expanding":
		batch := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: make([]byte, n[0]<<20)}})
		name := rhumb.Topic{Tenant: rhumb.DefaultSpace.Tenant, Namespace: rhumb.DefaultSpace.Namespace, Name: rhumb.TopicName(words[2])}
		_, err := s.regions[words[1]].Produce(s.t.Context(), name, 0, codectest.Packings[len(codectest.Packings)-1].Batch(batch))
		return err
	case "copy":
		s.regions[words[2]].Log(words[3], 0).CopyFrom(s.regions[words[1]].Log(words[3], 0))
	case "relay":
		s.regions[words[2]].Log(words[3], 0).RelayFrom(s.regions[words[1]].Log(words[3], 0))
	case "rebuild":
		s.regions[words[1]].Log(words[2], 0).Rebuild()
	case "lose":
		s.regions[words[1]].Log(words[2], 0).Tamper(func(b []admin.Batch) []admin.Batch { return slices.Delete(b, n[0], n[0]+1) })
	case "gap":
		s.regions[words[1]].Log(words[2], 0).Gap(s.regions[words[3]].Log(words[2], 0), rhumb.Offset(n[0]), rhumb.Offset(n[1]), rhumb.ReasonRetention)
	case "refuse":
		to := s.regions[words[1]]
		name := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: rhumb.TopicName(words[2])}
		link := admintest.Link(to)
		link.Partitions = []admin.LinkPartition{{Out: true, Topic: name, Region: 1, Life: s.regions["us"].Log(words[2], 0).Life(), State: "refused",
			End: rhumb.Offset(n[0]) + 3, Confirmed: rhumb.Offset(n[0]) - 1, LagRecords: 4, Lag: time.Second,
			Refused: &admin.Refusal{At: rhumb.Offset(n[0]), Code: "invalid", Reason: words[4], Since: time.Now()}}}
		s.regions["us"].SetLinks(link)
	case "paths":
		s.regions[words[1]].SetPaths(twoPaths(words[2], s.regions["eu"]))
	case "diverge":
		s.regions[words[1]].Diverge(rhumb.TopicName(words[2]), s.regions[words[3]], rhumb.Offset(n[0]), rhumb.Offset(n[1]))
	case "divergecopy":
		s.regions[words[1]].DivergeCopy(rhumb.TopicName(words[2]), s.regions[words[6]], s.regions[words[3]], rhumb.Offset(n[0]), rhumb.Offset(n[1]))
	case "trim":
		s.regions[words[1]].Log(words[2], 0).Trim(rhumb.Offset(n[0]))
	default:
		return fmt.Errorf("no such step")
	}
	return nil
}

// twoPaths is a topic of us whose records of ap came over eu, and now come straight.
func twoPaths(name string, eu *admintest.Region) admin.OriginPaths {
	topic := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: rhumb.TopicName(name)}
	at := time.UnixMilli(1_700_000_000_000)
	return admin.OriginPaths{Topic: topic, Region: eu.Identity.Number, Life: rhumb.Life{0xa1}, Waits: "region ap may still have it",
		Moved: admin.PathMove{At: at, From: "ap", To: "eu", Why: "region ap is not connected"},
		Paths: []admin.Path{{Over: "eu", State: "used", Hops: 1, Since: at, End: 7, Floor: rhumb.NoOffset},
			{Over: "ap", State: "down", Hops: 2, Since: at, End: rhumb.NoOffset, Floor: 3}}}
}

// split cuts a line into words; quotes ' keep blanks; # starts a comment.
func split(line string) (words []string) {
	word, open, quoted := "", false, false
	for _, c := range line {
		switch {
		case c == '\'':
			quoted, open = !quoted, true
		case !quoted && (c == ' ' || c == '\t'):
			if open {
				words = append(words, word)
			}
			word, open = "", false
		case !quoted && !open && c == '#':
			return words
		default:
			word, open = word+string(c), true
		}
	}
	if open {
		words = append(words, word)
	}
	return words
}
