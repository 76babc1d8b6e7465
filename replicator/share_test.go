package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestTwoLinksShareABottleneck: two links whose packets leave over one line get like
// parts of it, also when one comes a while later, and fill it.
func TestTwoLinksShareABottleneck(t *testing.T) {
	if testing.Short() {
		t.Skip("some minutes of a full line")
	}
	const rate = 10_000_000 // bits per second
	for _, line := range []relay.Settings{
		{Delay: 40 * time.Millisecond, Rate: rate},                                   // a queue of 50 ms
		{Delay: 40 * time.Millisecond, Rate: rate, Queue: rate / 8 / 4},              // one of 250 ms
		{Delay: 40 * time.Millisecond, Rate: rate, Queue: rate / 8 / 5, Loss: .0005}, // and some loss
	} {
		t.Run(fmt.Sprintf("queue %d loss %g", line.Queue, line.Loss), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ms := newMesh(t, relay.Settings{Delay: 40 * time.Millisecond}, "us", "eu", "ap")
				us := ms.nodes["us"]
				ms.net.bottleneck(us.addr, line)
				ms.limits = Limits{Connections: 16}
				ms.start()
				us.create(orders, 4)
				ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") && ms.linked("us", "ap") })
				// Chance gives one of two like links a fifth more for minutes, rarely: a link that
				// starves the other does it each time.
				var unfair string
				for range 3 {
					if unfair = ms.share(3*time.Minute, 2400, .75*rate/8); unfair == "" {
						return
					}
					t.Log(unfair)
				}
				t.Error(unfair)
			})
		})
	}
}

// share has us publish batches of 100 records of 1,000 bytes, lets some seconds and a time pass, and says what is wrong with
// what its two links have taken in that time: one has more than 1.25 times the other's, or both less than bytes per second.
func (m *mesh) share(d time.Duration, batches int, bytes float64) string {
	us := m.nodes["us"]
	for i := range batches {
		us.produce(orders, i%4, 100, 100_000)
	}
	time.Sleep(20 * time.Second)
	taken := func(peer rhumb.RegionName) float64 { return float64(us.link(peer).ConfirmedBytes) }
	eu, ap := taken("eu"), taken("ap")
	time.Sleep(d)
	eu, ap = (taken("eu")-eu)/d.Seconds(), (taken("ap")-ap)/d.Seconds()
	m.t.Logf("eu %.2f MB/s over %d connections, ap %.2f MB/s over %d", eu/1e6, us.connections("eu"), ap/1e6, us.connections("ap"))
	switch r := eu / ap; {
	case r < .8 || r > 1.25:
		return fmt.Sprintf("eu has %.2f times what ap has", r)
	case eu+ap < bytes:
		return fmt.Sprintf("only %.0f bytes per second, not %.0f", eu+ap, bytes)
	}
	return ""
}
