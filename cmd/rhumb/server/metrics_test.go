package server

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

// scraped is what /metrics tells of a metric.
type scraped struct {
	kind   string
	help   string
	labels []string // sorted
}

var sampleLine = regexp.MustCompile(`^(\w+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)

// scrape reads /metrics, without Go's own.
func scrape(t *testing.T, url string) map[string]scraped {
	t.Helper()
	code, text := get(url, "")
	if code != 200 {
		t.Fatalf("/metrics is %d: %s", code, text)
	}
	out := map[string]scraped{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if word := strings.SplitN(line, " ", 4); word[0] == "#" && len(word) == 4 {
			m := out[word[2]]
			if word[1] == "TYPE" {
				m.kind = word[3]
			} else {
				m.help = word[3]
			}
			out[word[2]] = m
			continue
		}
		found := sampleLine.FindStringSubmatch(line)
		if found == nil {
			t.Errorf("no sample: %s", line)
			continue
		}
		name := found[1]
		if _, known := out[name]; !known {
			name += found[2] // the ending is the name's own, as in _count
		}
		m := out[name]
		m.labels = nil
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(found[3], -1) {
			if l[1] != "le" {
				m.labels = append(m.labels, l[1])
			}
		}
		slices.Sort(m.labels)
		out[name] = m
	}
	for name := range out {
		if !strings.HasPrefix(name, "rhumb_") {
			delete(out, name)
		}
	}
	return out
}

// TestMetricsPageIsWhatAMeshTells compares docs/metrics.md with two linked regions
// that have a consumer group: names, kinds and labels.
func TestMetricsPageIsWhatAMeshTells(t *testing.T) {
	us, eu := configure(t), configure(t)
	eu.Region.Name = "eu"
	eu.ConfigStore = us.ConfigStore
	seedPair(t, &us, &eu)
	for _, cfg := range []*config.Config{&us, &eu} {
		cfg.Listeners[2].Bind = "127.0.0.1:0"
		cfg.Groups.InitialRebalanceDelay = 0
	}
	a := start(t, us)
	start(t, eu)
	a.produce(a.client(a.kafka()), "orders", "one")
	group := a.client(a.kafka(), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
	for group.PollFetches(a.ctx()).NumRecords() == 0 {
		if a.ctx().Err() != nil {
			t.Fatal("nothing is consumed")
		}
	}
	if err := group.CommitUncommittedOffsets(a.ctx()); err != nil {
		t.Fatal(err)
	}
	until(t, "the link is there", func() bool {
		_, text := get("http://"+a.admin()+"/metrics", "")
		return strings.Contains(text, `rhumb_link_state{peer_region="eu",state="idle"} 1`)
	})
	got := scrape(t, "http://"+a.admin()+"/metrics")
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "`rhumb_") || len(cells) < 5 {
			continue
		}
		name := strings.Trim(cells[0], "`")
		listed[name] = true
		m, there := got[name]
		if !there {
			t.Errorf("%s: no scrape has it", name)
			continue
		}
		labels := strings.FieldsFunc(cells[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		if m.kind != cells[1] || !slices.Equal(m.labels, labels) || cells[2] == "" || cells[4] == "" || m.help == "" {
			t.Errorf("%s: a %s with labels %v and help %q, the page says %v", name, m.kind, m.labels, m.help, cells)
		}
	}
	for name := range got {
		if !listed[name] {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
}
