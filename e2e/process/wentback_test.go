package process

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A region is away while the mesh's documents move on, and comes back to a Consul that
// was restored to what they were before: its own copy is as old. Its peers tell it, over
// cuts and restarts of those who tell, and it refuses changes as they do, until what they
// have seen is put back. Messages flow all the while.
func TestH8RegionThatWasAwayLearnsThatConsulWentBack(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us", "eu", "ap")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu", "ap")
	m.comesTo(0, "tenant", "create", "acme")
	m.comesTo(0, "config", "status")
	old := m.Consul.Snapshot()
	m.Kill("ap")
	m.comesTo(0, "namespace", "create", "acme/shop", "-f", m.namespaceFile("topology: {full-mesh: [us, eu]}\n"))
	m.comesTo(0, "namespace", "show", "acme/shop", "--region", "eu")
	alone := func() { // ap hears nobody
		for _, peer := range []rhumb.RegionName{"us", "eu"} {
			m.Link(peer, "ap", "cut=true")
			m.Link("ap", peer, "cut=true")
		}
	}
	alone()

	m.note("consul is restored from an old snapshot")
	old()
	m.shows(1, []string{"store went back"}, "config", "status", "--region", "eu")
	m.Restart("ap")
	m.shows(0, []string{"current"}, "config", "status", "--region", "ap") // it cannot know
	m.Heal()
	says := func() {
		t.Helper()
		m.shows(1, []string{"store went back", "namespaces/acme/shop: region", "seen version 1, the store has none", "rhumb config restore"}, "config", "status", "--region", "ap")
	}
	says()
	if got := m.problems("ap"); !slices.Contains(got, "configuration store: store went back") {
		t.Errorf("the problems of ap are %q", got)
	}
	m.shows(0, []string{"configuration store: store went back"}, "region", "show", "ap")
	if res := m.Run("tenant", "create", "other", "--region", "ap"); res.Code != 1 || !strings.Contains(res.Stderr, "store went back") {
		t.Errorf("ap takes a change of a store that went back, exit code %d: %s", res.Code, res.Stderr)
	}
	if code := Ready(m.Region("ap").Admin); code != http.StatusOK {
		t.Errorf("ap answers /readyz with %d although only its store went back", code)
	}
	tr.Progress(50, "us", "eu", "ap")
	for _, name := range []rhumb.RegionName{"ap", "eu", "us"} { // who is told, and all who tell
		m.Kill(name)
	}
	for _, name := range []rhumb.RegionName{"ap", "us", "eu"} {
		m.Restart(name)
	}
	says()
	tr.Progress(50, "us", "eu", "ap")
	m.shows(1, []string{"ap: configstore: store went back", "only a region that has seen it can put it back"}, "config", "restore", "--yes", "--region", "ap")
	alone()
	m.comesTo(0, "config", "restore", "--yes")
	m.shows(0, []string{"current"}, "config", "status", "--region", "ap") // it sees for itself that the store has it
	m.comesTo(0, "config", "status")
	m.Heal()
	m.comesTo(0, "tenant", "create", "other", "--region", "ap")
	m.comesTo(0, "namespace", "show", "acme/shop", "--region", "ap")
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.Stop()
}

// A region that was removed while it was away starts on a Consul that was restored to
// when it was there. Its peers refuse its links and say by which version of its document
// it was removed: it takes no producers, is not ready, changes nothing, and can be read.
// When an operator has the mesh accept the old documents, it is a region again.
func TestH8RemovedRegionStartsOnAnOldConsul(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us", "eu", "ap")
	ap := m.Region("ap")
	m.create("us", "orders", 1)
	m.publish("ap", "orders", "ap", 20)
	Until(t, "us has what ap published", func() bool { return len(m.valuesAt("us", "orders", "ap")) == 20 })
	m.comesTo(0, "config", "status")
	old := m.Consul.Snapshot()
	m.Kill("ap")
	m.tells(0, []string{"number 3 is retired"}, "region", "remove", "ap", "--force")
	Until(t, "eu knows", func() bool {
		res := m.Run("region", "list", "--region", "eu")
		return res.Code == 0 && !strings.Contains(res.Stdout, "ap ")
	})

	m.note("consul is restored from an old snapshot")
	old()
	m.shows(1, []string{"store went back", "regions/ap"}, "config", "status", "--region", "us")
	told := func() {
		t.Helper()
		m.launch(ap)
		Until(t, "ap says that it was removed", func() bool {
			return Ready(ap.Admin) == http.StatusServiceUnavailable && slices.Contains(m.problems("ap"), "registration: removed")
		})
		Until(t, "and that its store went back", func() bool { return slices.Contains(m.problems("ap"), "configuration store: store went back") })
		ask := func(args ...string) Result { return Run(t, []string{"RHUMB_ADDR=http://" + ap.Admin}, args...) }
		res := ask("config", "status", "--region", "ap")
		if res.Code != 1 || !strings.Contains(res.Stdout, "by which region ap, number 3, was removed; the store has version") {
			t.Errorf("config status exits with %d:\n%s", res.Code, res.Stdout)
		}
		if res := ask("region", "show", "ap"); !strings.Contains(res.Stdout, "registration: removed: ") {
			t.Errorf("region show at ap:\n%s", res.Stdout)
		}
		if res := ask("tenant", "create", "other", "--region", "ap"); res.Code != 1 || !strings.Contains(res.Stderr, "region was removed") {
			t.Errorf("a change through ap exits with %d: %s", res.Code, res.Stderr)
		}
		Until(t, "ap takes no producers", func() bool { // its door follows a moment later
			c := Client(t, ap.Kafka)
			defer c.Close()
			return errors.Is(c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("try-0")}).FirstErr(), kerr.PolicyViolation)
		})
		if got := m.valuesAt("ap", "orders", "ap"); len(got) != 20 {
			t.Errorf("ap shows %d of its records", len(got))
		}
	}
	told()
	m.Kill("us")
	m.Restart("us") // who tells starts again
	m.Kill("ap")
	told()

	m.note("the mesh accepts the old documents")
	for _, name := range []rhumb.RegionName{"us", "eu"} {
		m.Kill(name)
		if err := os.Remove(filepath.Join(m.Dir, "data-"+string(name), "config.json")); err != nil {
			t.Fatal(err)
		}
	}
	m.Restart("us")
	m.Restart("eu")
	m.awaitReady(ap)
	m.publish("ap", "orders", "again", 20)
	Until(t, "us gets it", func() bool { return len(m.valuesAt("us", "orders", "again")) == 20 })
	m.comesTo(0, "config", "status")
	m.Verify("orders")
	m.Stop()
}
