package replicator

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
)

// copyCerts gives a region what it needs of an operator's directory, as a person would:
// file by file, the key before its certificate.
func (n *node) copyCerts(from, to string) {
	n.mesh.t.Helper()
	name := "region-" + string(n.self.Name)
	for _, file := range []string{"ca.crt", name + ".key", name + ".crt"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, file), text, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.mesh.t.Fatal(err)
		}
	}
}

// certsInFiles makes a CA in the directory "admin" and gives each region its own files of
// it, which it reads again when they change.
func (ms *mesh) certsInFiles(dirs map[string]string) *certs.Folder {
	ms.t.Helper()
	folder := certs.NewFolder(dirs["admin"])
	if _, err := folder.Init(ms.id, certs.Options{}); err != nil {
		ms.t.Fatal(err)
	}
	for _, n := range ms.nodes {
		name := string(n.self.Name)
		if _, err := folder.Issue(certs.RoleRegion, name, certs.Options{}); err != nil {
			ms.t.Fatal(err)
		}
		n.copyCerts(dirs["admin"], dirs[name])
		own := certs.NewFolder(dirs[name])
		ca, _ := own.CAFiles()
		cert, key := own.Files(certs.RoleRegion, name)
		src, err := certs.Open(certs.Files{CA: ca, Cert: cert, Key: key})
		if err != nil {
			ms.t.Fatal(err)
		}
		n.certs = src
	}
	return folder
}

// TestCARollsOverWithManyConnections: while records go both ways, a CA is rolled over step by
// step, first in one region and then in the other; meanwhile connections of the link come and
// go, so that each state of the two is met by handshakes. No connection is refused or lost, no
// record is lost, doubled or out of order, and at the end a new link needs the new CA alone.
func TestCARollsOverWithManyConnections(t *testing.T) {
	dirs := map[string]string{"admin": t.TempDir(), "us": t.TempDir(), "eu": t.TempDir()}
	inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		folder := ms.certsInFiles(dirs)
		first := us.certs.Current().Signer()
		ms.limits = Limits{Connections: 6, Lanes: 3}
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		us.create(orders, 3)
		ms.until("topic", 10*time.Second, func() bool {
			info, ok := eu.region.Topic(orders)
			return ok && len(info.Partitions) == 3
		})
		traffic := func() {
			for _, want := range []int{1, 6, 2, 5} {
				us.want(want)
				eu.want(want)
				for range 20 {
					us.produce(orders, rand.IntN(3), 2, 2000)
					eu.produce(orders, rand.IntN(3), 2, 2000)
					ms.pass(50 * time.Millisecond)
				}
				ms.until("as many connections as are wanted", time.Minute, func() bool { return us.connections("eu") == want && eu.connections("us") == want })
			}
		}
		step := func(err error) {
			if err != nil {
				ms.t.Fatal(err)
			}
			for _, n := range []*node{us, eu} {
				n.copyCerts(dirs["admin"], dirs[string(n.self.Name)])
				traffic()
			}
		}
		traffic()
		_, err := folder.BeginRoll(0)
		step(err)
		if n := len(us.certs.Current().Roots); n != 2 {
			ms.t.Errorf("%d CAs are trusted, want two", n)
		}
		_, err = folder.IssueRoll()
		step(err)
		_, err = folder.FinishRoll()
		step(err)
		for _, n := range ms.nodes {
			peer := map[*node]*node{us: eu, eu: us}[n].self.Name
			if l := n.link(peer); l.Connects != 1 || l.ConnectionsLost != 0 || l.LastError != "" {
				ms.t.Errorf("%s: %d connects, %d connections lost, last error %q", n.self.Name, l.Connects, l.ConnectionsLost, l.LastError)
			}
			if now := n.certs.Current(); len(now.Roots) != 1 || now.Roots[0].Equal(first) || now.Signer() == nil {
				ms.t.Errorf("%s trusts %d CAs after the roll-over", n.self.Name, len(now.Roots))
			}
			for _, m := range n.members(peer) {
				if leaf := m.qc.ConnectionState().TLS.PeerCertificates[0]; leaf.CheckSignatureFrom(first) == nil {
					ms.t.Errorf("%s: a connection of the last step shows a certificate of the old CA", n.self.Name)
				}
			}
		}
		us.conn("eu").end(errStuck)
		ms.until("linked anew", time.Minute, func() bool { return us.link("eu").Connects == 2 && ms.linked("us", "eu") })
		for p := range 3 {
			ms.until("copied both ways", time.Minute, func() bool { return copied(us, eu, orders, p) && copied(eu, us, orders, p) })
		}
	})
}
