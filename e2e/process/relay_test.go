package process

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ringAndHub is a ring of four regions and a hub that is linked to two of them. All
// edges lead both ways and forward.
func ringAndHub() configstore.Topology {
	var t configstore.Topology
	for _, pair := range [][2]rhumb.RegionName{{"us", "eu"}, {"eu", "ap"}, {"ap", "sa"}, {"sa", "us"}, {"hub", "us"}, {"hub", "ap"}} {
		t.Edges = append(t.Edges, configstore.EdgeSpec{From: pair[0], To: pair[1], Forward: true},
			configstore.EdgeSpec{From: pair[1], To: pair[0], Forward: true})
	}
	return t
}

// flow makes a topology that of public/default.
func (m *Mesh) flow(topology configstore.Topology) {
	m.t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(m.Dir, "config")})
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	_, err = w.PutNamespace(context.Background(), rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &topology
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// Between us and ap lie three relays. They die by kill -9 one after the other, and
// what us and ap publish arrives over what is left; at the end every region has
// everything once, over whichever path it came.
func TestI3RelaysAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five regions")
	}
	names := []rhumb.RegionName{"us", "eu", "ap", "sa", "hub"}
	m := Start(t, names...)
	m.flow(ringAndHub())
	m.create("us", "orders", 4)
	m.note("the topic is everywhere")
	tr := m.Produce("orders", 4, 1)
	const some = 200
	tr.Progress(some, names...)
	m.note("records flow")
	m.verifyPair("us", "ap", []string{"orders"})

	m.Kill("eu")
	tr.Progress(some, "us", "ap", "sa", "hub")
	m.verifyPair("us", "ap", []string{"orders"})
	m.Kill("hub")
	tr.Progress(some, "us", "ap", "sa")
	m.verifyPair("us", "ap", []string{"orders"}) // over sa alone
	m.Restart("eu")
	m.Kill("sa")
	tr.Progress(some, "us", "ap", "eu")
	m.verifyPair("us", "ap", []string{"orders"})
	m.Restart("hub")
	m.Restart("sa")
	tr.Progress(some, names...)
	tr.Finish()
	m.Verify()
	tr.Check(m)
	m.Stop()
}
