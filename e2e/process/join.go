package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/porttest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Prepare makes a region that the mesh does not have, as an operator does: it gets a
// number, a certificate and a file, and does not run yet. No running region is touched.
func (m *Mesh) Prepare(name rhumb.RegionName) *Region {
	m.t.Helper()
	offset, p := porttest.Offset(m.t, 1), config.PortsOf(0, 0)
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port+offset) }
	r := &Region{Name: name, Kafka: at(p.Kafka), Admin: at(p.HTTP), Geo: at(p.Geo),
		Config: filepath.Join(m.Dir, string(name)+".yaml")}
	m.register(r)
	ca, err := certs.LoadCA(filepath.Join(m.Dir, "ca.crt"), filepath.Join(m.Dir, "ca.key"))
	if err != nil {
		m.t.Fatal(err)
	}
	pair, err := ca.IssueRegion(name, []string{"127.0.0.1"}, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	file := filepath.Join(m.Dir, "region-"+string(name))
	if err := pair.Save(file+".crt", file+".key"); err != nil {
		m.t.Fatal(err)
	}
	for _, other := range m.Regions {
		m.openRelay(other, r)
	}
	m.Regions = append(m.Regions, r)
	m.writeConfig(r)
	return r
}

// register registers a region. Its pinned addresses have no geo address: it is the one
// that dials, so that its links run through relays like all others.
func (m *Mesh) register(r *Region) {
	m.t.Helper()
	for _, command := range []string{"register", "update"} {
		if res := m.Run("region", command, string(r.Name), "--kafka", r.Kafka, "--admin", r.Admin); res.Code != 0 {
			m.t.Fatalf("%s %s: %+v", command, r.Name, res)
		}
	}
}

// Forget has the mesh's checks leave a region out.
func (m *Mesh) Forget(name rhumb.RegionName) *Region {
	m.t.Helper()
	r := m.Region(name)
	m.Regions = slices.DeleteFunc(m.Regions, func(o *Region) bool { return o == r })
	return r
}

// Flow has public/default flow between the regions, and no others.
func (m *Mesh) Flow(names ...string) {
	m.t.Helper()
	file := filepath.Join(m.Dir, "flow.yaml")
	if err := os.WriteFile(file, []byte("topology: {full-mesh: ["+strings.Join(names, ", ")+"]}\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if res := m.Run("namespace", "set", "public/default", "-f", file); res.Code != 0 {
		m.t.Fatalf("namespace set: %+v", res)
	}
	m.note("public/default flows between %v", names)
}
