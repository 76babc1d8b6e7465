package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// lose empties a region's data directory, and an operator says that it is gone.
func (m *Mesh) lose(name, ask rhumb.RegionName) {
	m.t.Helper()
	m.Kill(name)
	if err := os.RemoveAll(filepath.Join(m.Dir, "data-"+string(name))); err != nil {
		m.t.Fatal(err)
	}
	if res := Run(m.t, []string{"RHUMB_ADDR=http://" + m.Region(ask).Admin}, "region", "replace", string(name), "--yes"); res.Code != 0 {
		m.t.Fatalf("replace: %+v", res)
	}
	m.note("%s has lost its disk", name)
}

// isolate cuts a region off from the others, or heals that.
func (m *Mesh) isolate(name rhumb.RegionName, settings string) {
	m.t.Helper()
	for _, r := range m.Regions {
		if r.Name != name {
			m.Link(name, r.Name, settings)
			m.Link(r.Name, name, settings)
		}
	}
}

// A region loses its disk and starts from nothing. What it had published comes back to
// it from the others, once each and in order, though no edge forwards: through cuts,
// another kill -9 in the middle, and a second loss. Before that verify does not call
// it equal, and after it does.
func TestI7RebuiltRegionGetsItsEarlierLivesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("a region that is rebuilt twice takes its time")
	}
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 2)
	tr.Progress(1000, "us", "eu", "ap")
	tr.Finish()
	m.Verify("orders")
	for _, p := range tr.producers {
		p.region = "" // a rebuilt log gives records other offsets
	}

	m.lose("us", "eu")
	m.isolate("us", "cut=true")
	m.Restart("us")
	if res := Run(t, []string{"RHUMB_ADDR=http://" + m.Region("eu").Admin}, "verify", "us", "eu", "orders"); res.Code != 2 {
		t.Errorf("verify of a region that has lost everything exits with %d:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	m.Link("us", "eu", "cut=false,rate=2mbit") // it comes back slowly, over one path
	m.Link("eu", "us", "cut=false,rate=2mbit")
	m.awaitTopic(m.Region("us"), "orders", true)
	Until(t, "something has come back", func() bool { return len(Read(t, m.Region("us").Kafka, "orders")[0]) > 0 })
	m.Kill("us")
	m.Restart("us")
	m.isolate("us", "cut=false,rate=0")
	m.Verify("orders")
	tr.Check(m)

	again := m.Produce("orders", 2, 1, "us") // a second life of each log
	again.Progress(300, "us")
	again.Finish()
	m.Verify("orders")
	m.lose("us", "ap")
	m.Restart("us")
	later := m.Produce("orders", 2, 1, "eu") // while both lives come back
	later.Progress(300, "eu")
	later.Finish()
	m.Verify("orders")
	m.Stop()
}
