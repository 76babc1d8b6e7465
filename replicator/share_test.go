package replicator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
			synctest.Test(t, func(t *testing.T) {
				ms := newMesh(t, relay.Settings{Delay: 40 * time.Millisecond}, "us", "eu", "ap")
				us := ms.nodes["us"]
				ms.net.bottleneck(us.addr, line)
				ms.limits = Limits{Connections: 16}
				ms.start()
				us.create(orders, 4)
				ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") && ms.linked("us", "ap") })
				for i := range 2400 {
					us.produce(orders, i%4, 100, 100_000)
				}
				taken := func(peer rhumb.RegionName) float64 { return float64(us.link(peer).ConfirmedBytes) }
				time.Sleep(20 * time.Second)
				eu, ap := taken("eu"), taken("ap")
				time.Sleep(3 * time.Minute)
				eu, ap = taken("eu")-eu, taken("ap")-ap
				t.Logf("eu %.2f MB/s over %d connections, ap %.2f MB/s over %d", eu/180e6, us.connections("eu"), ap/180e6, us.connections("ap"))
				if r := eu / ap; r < .8 || r > 1.25 {
					t.Errorf("eu has %.2f times what ap has", r)
				}
				if sum := (eu + ap) / 180; sum < .75*rate/8 {
					t.Errorf("only %.0f bytes per second of %d", sum, rate/8)
				}
			})
		})
	}
}
