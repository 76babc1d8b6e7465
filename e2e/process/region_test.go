package process

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// tells runs a command that must exit with a code and print all of the words.
func (m *Mesh) tells(code int, words []string, args ...string) {
	m.t.Helper()
	res := m.Run(args...)
	m.note("rhumb %s: exit code %d", strings.Join(args, " "), res.Code)
	for _, w := range words {
		if res.Code != code || !strings.Contains(res.Stdout+res.Stderr, w) {
			m.t.Errorf("rhumb %s exits with %d, want %d and %q:\n%s%s", strings.Join(args, " "), res.Code, code, w, res.Stdout, res.Stderr)
		}
	}
}

// refuses publishes once in a region, which must refuse it.
func (m *Mesh) refuses(at *Region, topic string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	c := Client(m.t, at.Kafka)
	defer c.Close()
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("refused")}).FirstErr(); err == nil {
		m.t.Errorf("%s takes producers", at.Name)
	}
}

// A fourth region joins a mesh under traffic, is killed and cut off while it catches
// up, takes records itself, drains, and leaves. What it had published stays in the
// others, nothing is lost or doubled anywhere, and the name comes back under a new
// number.
func TestG70RegionJoinsAndLeavesUnderTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("a region that joins, leaves and comes back takes half a minute")
	}
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 4)
	tr := m.Produce("orders", 4, 1)
	const some = 300
	tr.Progress(some, "us", "eu", "ap")

	sa := m.Prepare("sa")
	m.tells(0, []string{"joined not yet", "no edge leads to it"}, "region", "show", "sa")
	m.Flow("us", "eu", "ap", "sa") // the others know of it before it has ever run
	m.shows(1, []string{"SOURCE"}, "region", "show", "sa", "--wait", "1s")
	m.launch(sa)
	m.awaitReady(sa)
	m.Kill("sa") // in the middle of what it has missed
	m.Restart("sa")
	m.Link("us", "sa", "cut=true")
	m.Link("sa", "us", "cut=true")
	tr.Progress(some, "us", "eu", "ap")
	m.Kill("sa")
	m.Restart("sa")
	m.Heal()
	m.tells(0, []string{"region sa, number 4: active"}, "region", "show", "sa", "--wait", Limit.String())
	own := m.Produce("orders", 4, 1, "sa")
	own.Progress(some, "sa")
	m.Verify("orders")

	own.Finish()
	m.leave(sa)
	tr.Progress(some, "us", "eu", "ap")
	m.comeBack(sa)
	tr.Progress(some, "us", "eu", "ap")
	tr.Finish()
	m.Verify("orders")
	// What number 4 had published stays, and comes to number 5 as to any other region.
	for _, p := range own.producers {
		p.region = "" // its log gives records other offsets than that of number 4
	}
	tr.Check(m, own)
	m.Stop()
}

// leave drains and removes a region, in the middle of which it is cut off and killed.
func (m *Mesh) leave(sa *Region) {
	m.t.Helper()
	m.create("sa", "orders-of-sa", 1)
	m.Link("sa", "eu", "cut=true")
	m.Link("eu", "sa", "cut=true")
	writing := m.Produce("orders-of-sa", 1, 2, "sa") // in the middle of which the door is shut
	m.tells(1, []string{"draining", "NOT CONFIRMED BY", "eu "}, "region", "drain", "sa", "--wait", "2s")
	writing.Abandon()
	Until(m.t, "sa says that it drains", func() bool { return slices.Contains(m.problems("sa"), "region: draining") })
	m.refuses(sa, "orders")
	m.tells(1, []string{"namespace public/default", "--force"}, "region", "remove", "sa")
	m.Kill("sa")
	m.Restart("sa")
	m.refuses(sa, "orders")
	m.Heal()
	m.tells(0, []string{"drained", "every record that was published there is confirmed"}, "region", "drain", "sa", "--wait", Limit.String())
	for _, r := range m.Regions {
		writing.checkStored(r)
	}
	m.Flow("us", "eu", "ap")
	m.tells(0, []string{"removed region sa; number 4 is retired", "something answers", "it does not start again"}, "region", "remove", "sa")

	Until(m.t, "sa says that it was removed", func() bool { return slices.Contains(m.problems("sa"), "registration: removed") })
	if code := Ready(sa.Admin); code != http.StatusServiceUnavailable {
		m.t.Errorf("a removed region is ready: %d", code)
	}
	m.refuses(sa, "orders")
	Until(m.t, "us has no link to it", func() bool {
		res := m.Run("link", "list")
		return res.Code == 0 && !strings.Contains(res.Stdout, "sa")
	})
	m.Kill("sa")
	m.Forget("sa")
	m.launch(sa)
	if code := sa.running.Wait(); code != 1 || !strings.Contains(sa.running.Output(), "rhumb region register sa") {
		m.t.Errorf("a removed region starts, or does not say what to do: %d\n%s", code, sa.running.Output())
	}
	if res := Run(m.t, nil, "log", "verify", filepath.Join(m.Dir, "data-sa")); res.Code != 0 {
		m.t.Errorf("its data is not whole: %+v", res)
	}
	m.Verify("orders")
}

// checkStored looks whether a region has every record that a producer was told is stored.
func (tr *Traffic) checkStored(r *Region) {
	tr.t.Helper()
	has := map[string]bool{}
	for _, records := range Read(tr.t, r.Kafka, tr.topic) {
		for _, rec := range records {
			has[string(rec.Value)] = true
		}
	}
	for _, p := range tr.producers {
		p.mu.Lock()
		for value := range p.stored {
			if !has[value] {
				tr.t.Errorf("%s lacks %.40q, which was acknowledged before the region drained", r.Name, value)
				break
			}
		}
		tr.t.Logf("%s has all %d acknowledged records of %s", r.Name, len(p.stored), p.name)
		p.mu.Unlock()
	}
}

// comeBack registers the name again: the old data directory is refused, an empty one
// gets everything.
func (m *Mesh) comeBack(sa *Region) {
	m.t.Helper()
	m.register(sa)
	m.launch(sa)
	if code := sa.running.Wait(); code != 1 || !strings.Contains(sa.running.Output(), "empty data directory") {
		m.t.Errorf("the old data directory is taken for number 5: %d\n%s", code, sa.running.Output())
	}
	data := filepath.Join(m.Dir, "data-sa")
	if err := os.Rename(data, data+"-of-4"); err != nil {
		m.t.Fatal(err)
	}
	m.Flow("us", "eu", "ap", "sa")
	m.Regions = append(m.Regions, sa)
	m.launch(sa)
	m.awaitReady(sa)
	m.tells(0, []string{"number 5: active", "number 4 until"}, "region", "show", "sa", "--wait", Limit.String())
}

// Two regions are registered by two admins at once, start at the same moment and catch
// up side by side: each has a number of its own, and all hold the same.
func TestTwoRegionsJoinAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("four processes")
	}
	m := Start(t, "us", "eu")
	m.create("us", "orders", 2)
	m.publish("us", "orders", "before", 200)
	results := make(chan Result, 8)
	for i := range cap(results) {
		name := []string{"ap", "sa"}[i%2]
		go func() { results <- m.Run("region", "register", name) }()
	}
	won := map[string]int{}
	for range cap(results) {
		res := <-results
		if line, _, _ := strings.Cut(res.Stdout, "\n"); res.Code == 0 {
			won[line]++
		} else if !strings.Contains(res.Stderr, "registered already") {
			t.Errorf("%+v", res)
		}
	}
	if len(won) != 2 { // each name once; the numbers of the others are lost
		t.Fatalf("who registered: %v", won)
	}
	for _, name := range []rhumb.RegionName{"ap", "sa"} {
		if res := m.Run("region", "remove", string(name)); res.Code != 0 { // Prepare registers it with its addresses
			t.Fatalf("%+v", res)
		}
	}
	ap, sa := m.Prepare("ap"), m.Prepare("sa")
	m.Flow("us", "eu", "ap", "sa")
	m.launch(ap)
	m.launch(sa)
	m.awaitReady(ap)
	m.awaitReady(sa)
	m.tells(0, []string{"number", "rebuilt 0 times"}, "region", "show", "ap", "--wait", Limit.String())
	m.tells(0, []string{"number", "rebuilt 0 times"}, "region", "show", "sa", "--wait", Limit.String())
	m.publish("sa", "orders", "after", 50)
	m.Verify("orders")
	m.Stop()
}

// A region dies for good while another one lacks its newest records. It is removed by
// force, though namespaces name it. The others go on, and agree: who lacks the records
// gets them from who has them, also after it has lost its disk.
func TestDeadRegionIsRemovedByForce(t *testing.T) {
	if testing.Short() {
		t.Skip("three processes")
	}
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 1)
	m.publish("us", "orders", "common", 40)
	m.Verify("orders")
	m.Link("us", "ap", "cut=true")
	last := m.publish("us", "orders", "last", 50)
	Until(t, "eu has it", func() bool { return len(m.valuesAt("eu", "orders", "last")) == len(last) })
	m.Kill("us")
	m.Forget("us")
	m.tells(1, []string{"namespace public/default", "--force"}, "region", "remove", "us")
	m.tells(0, []string{"number 1 is retired", "had not been drained", "still named by namespace public/default"}, "region", "remove", "us", "--force")
	m.publish("eu", "orders", "since", 20)
	m.publish("ap", "orders", "since", 20)
	Until(t, "the others go on", func() bool {
		return len(m.valuesAt("eu", "orders", "since")) == 40 && len(m.valuesAt("ap", "orders", "since")) == 40
	})
	got := func(want int) func() bool {
		return func() bool { return len(m.valuesAt("ap", "orders", "last")) == want }
	}
	Until(t, "ap has what only eu had", got(len(last)))
	m.Verify("orders")
	m.lose("ap", "eu")
	m.Restart("ap")
	m.tells(0, []string{"region ap"}, "region", "show", "ap", "--wait", Limit.String())
	Until(t, "ap has it again", got(len(last)))
	m.Verify("orders")
	Until(t, "eu does not complain", func() bool { return len(m.problems("eu")) == 0 })
	m.Stop()
}
