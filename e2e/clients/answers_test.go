package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// probe is a request that both a region and real Kafka get, in each version.
type probe struct {
	name string
	from int16 // the first version that can say it
	ask  func(w *world, v int16) kmsg.Request
}

// The folder holds what Kafka answered, one file for each API, and in
// differences.golden what a region answers otherwise, with the reasons.
const answersDir = "answers"

// Requests in every version of each API that a region serves are answered as Kafka
// 4.3 answers them, but for ids, times, sizes and the words of errors, and for
// what answers/differences.golden holds.
func TestAnswersAreKafkas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a region")
	}
	if *recordKafka {
		w := newWorld(t, startKafka(t))
		w.awaitCoordinators()
		for _, key := range probedKeys() {
			keepAnswers(t, answersFile(key), probeAll(w, key, 0, kmsg.RequestForKey(key).MaxVersion()))
		}
		return
	}
	w := newWorld(t, process.Start(t, "us").Region("us").Kafka)
	known := readTranscript(t, filepath.Join(answersDir, "differences.golden"))
	var differ []difference
	asked := 0
	for key, versions := range w.max {
		if probes[key] == nil {
			t.Errorf("%s is served, and nothing asks it", kmsg.NameForKey(key))
		} else if max := kmsg.RequestForKey(key).MaxVersion(); versions[1] > max {
			t.Errorf("%s: version %d is served, this test knows %d", kmsg.NameForKey(key), versions[1], max)
		}
	}
	for _, key := range probedKeys() {
		if _, served := w.max[key]; !served {
			t.Logf("%s is not served", kmsg.NameForKey(key))
			continue
		}
		got, want := probeAll(w, key, w.max[key][0], w.max[key][1]), readTranscript(t, answersFile(key))
		asked += len(got)
		for _, g := range got {
			if k, is := lookUp(want, g); !is {
				t.Errorf("%s is not in %s: record it again with -kafka", g.command, answersFile(key))
			} else if k.output != g.output {
				differ = append(differ, difference{g, k.output})
			}
		}
	}
	if *acceptDifferences {
		acceptAnswers(t, differ, known)
		return
	}
	compareKnown(t, differ, known)
	t.Logf("%d answers, %d differ from Kafka's", asked, len(differ))
}

// compareKnown: each difference is as it may be, and none is gone.
func compareKnown(t *testing.T, differ []difference, known []command) {
	t.Helper()
	used := map[string]bool{}
	for _, d := range differ {
		k, is := lookUp(known, d.command)
		used[k.command] = true
		switch {
		case !is:
			t.Errorf("%s\na region answers\n%sKafka answers\n%s", d.command.command, d.output, d.kafka)
		case k.output != d.output:
			t.Errorf("%s\na region answers\n%sand may answer\n%sKafka answers\n%s", d.command.command, d.output, k.output, d.kafka)
		case k.reason == "":
			t.Errorf("%s differs without a reason", k.command)
		}
	}
	for _, k := range known {
		if !used[k.command] {
			t.Errorf("%s is answered as Kafka does: remove it from differences.golden", k.command)
		}
	}
}

// difference is an answer of a region that is not Kafka's.
type difference struct {
	command
	kafka string
}

// acceptAnswers keeps the reasons that there were.
func acceptAnswers(t *testing.T, differ []difference, known []command) {
	t.Helper()
	var all []command
	for _, d := range differ {
		if k, is := lookUp(known, d.command); is {
			d.reason = k.reason
		}
		all = append(all, d.command)
	}
	keepAnswers(t, filepath.Join(answersDir, "differences.golden"), all)
}

func probedKeys() (keys []int16) {
	for k := range probes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func answersFile(key int16) string {
	return filepath.Join(answersDir, fmt.Sprintf("%02d_%s.golden", key, strings.ToLower(kmsg.NameForKey(key))))
}

// probeAll asks everything that is to be asked of an API, probe by probe.
func probeAll(w *world, key, from, to int16) (out []command) {
	w.t.Helper()
	if from = max(from, oldest[key]); w.max[key][1] < to {
		to = w.max[key][1]
	}
	if from < w.max[key][0] {
		from = w.max[key][0]
	}
	for _, p := range probes[key] {
		for v := max(from, p.from); v <= to; v++ {
			c := command{command: fmt.Sprintf("%s %s, version %d", kmsg.NameForKey(key), p.name, v)}
			c.output = w.answer(p.ask(w, v), v)
			if strings.Contains(c.output, "timeout") {
				w.t.Fatalf("%s: %s", c.command, c.output)
			}
			out = append(out, c)
		}
	}
	return out
}

// keepAnswers leaves out what is the same as in the version before.
func keepAnswers(t *testing.T, path string, all []command) {
	t.Helper()
	all = slices.Clone(all)
	for i := len(all) - 1; i > 0; i-- {
		if all[i].output == all[i-1].output && all[i].probe() == all[i-1].probe() {
			all = slices.Delete(all, i, i+1)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	keep(t, path, all)
}

// probe is the command without the version.
func (c command) probe() string {
	probe, _, _ := strings.Cut(c.command, ", version ")
	return probe
}

func (c command) version() int {
	_, version, _ := strings.Cut(c.command, ", version ")
	v, _ := strconv.Atoi(version)
	return v
}

// lookUp finds what was kept for a command: the answer of the newest version that
// is not newer.
func lookUp(kept []command, c command) (command, bool) {
	best := -1
	for i, k := range kept {
		if k.probe() == c.probe() && k.version() <= c.version() && (best < 0 || k.version() > kept[best].version()) {
			best = i
		}
	}
	if best < 0 {
		return command{}, false
	}
	return kept[best], true
}
