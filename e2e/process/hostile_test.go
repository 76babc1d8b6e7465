package process

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Datagrams that are no QUIC, or only look like it, arrive on the geo port of a
// region while its links carry traffic: nothing is hurt.
func TestI9StrangersOnTheGeoPort(t *testing.T) {
	m := Start(t, "us", "eu")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu")
	c, err := net.Dial("udp", m.Region("eu").Geo)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	luck := rand.New(rand.NewPCG(1, 2))
	for n := range 3000 {
		b := make([]byte, luck.IntN(1500))
		for i := range b {
			b[i] = byte(luck.Uint32())
		}
		if len(b) > 5 && n%2 == 0 {
			copy(b, []byte{0xc3, 0, 0, 0, 1}) // a long header of QUIC version 1
		}
		c.Write(b) // an error is the echo of a refused datagram
	}
	tr.Progress(50, "us", "eu")
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.Stop()
}

// While the configuration store is away, traffic, links and restarts go on; when
// it comes back, so do changes.
func TestI5StoreIsAway(t *testing.T) {
	m := Start(t, "us", "eu")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu")
	store, away := filepath.Join(m.Dir, "config"), filepath.Join(m.Dir, "away")
	if err := os.Rename(store, away); err != nil {
		t.Fatal(err)
	}
	m.note("the store is away")
	tr.Progress(50, "us", "eu")
	m.Kill("eu")
	m.Restart("eu")
	tr.Progress(50, "us", "eu")
	m.Region("us").Process().Signal(15)
	m.Region("us").Process().Wait()
	m.Restart("us")
	tr.Progress(50, "us", "eu")
	Until(t, "the store is in its place", func() bool { // regions make an empty one now and then
		os.RemoveAll(store)
		return os.Rename(away, store) == nil
	})
	m.note("the store is back")
	m.create("us", "after", 1)
	tr.Finish()
	m.Verify("orders", "after")
	tr.Check(m)
	m.Stop()
}
