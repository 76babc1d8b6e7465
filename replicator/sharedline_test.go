package replicator

import (
	"encoding/binary"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var (
	shareSeeds = flag.Int("share-seeds", 4, "runs of TestFiguresOfSharedLines")
	shareLate  = flag.Duration("share-late", 0, "how much later the second link has something to send in TestFiguresOfSharedLines")
)

// sharedLine is one on which two links are behind all the time.
type sharedLine struct {
	ms   *mesh
	us   *node
	last [2]float64 // bytes that each has taken
}

const (
	shareStep  = 5 * time.Second
	shareBatch = 100_000
)

var sharers = [2]rhumb.RegionName{"eu", "ap"}

// newSharedLine has two links behind for a time: with batches of which a part is noise, on
// a line with a queue of 50 ms, of rate bits per second, on which a packet takes trip to and
// fro. The second one has nothing to send for a while.
func newSharedLine(t *testing.T, trip time.Duration, rate int64, noise float64, d, late time.Duration) *sharedLine {
	ms := newMesh(t, relay.Settings{Delay: trip / 2}, "us", "eu", "ap")
	us := ms.nodes["us"]
	ms.net.bottleneck(us.addr, relay.Settings{Delay: trip / 2, Rate: rate, Queue: int(rate / 8 / 20)})
	second := rhumb.Topic{Tenant: "public", Namespace: "second", Name: "orders"}
	ms.policy.edges = fullMesh("us", "eu")
	for _, e := range fullMesh("us", "ap") {
		e.Namespace = second.Namespace
		ms.policy.edges = append(ms.policy.edges, e)
	}
	ms.start()
	for _, name := range sharers {
		ms.nodes[name].region.forget = true
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", name) })
	}
	us.create(orders, 6)
	us.create(second, 6)
	ms.until("both have their topic", 10*time.Second, func() bool {
		_, eu := ms.nodes["eu"].region.Topic(orders)
		_, ap := ms.nodes["ap"].region.Topic(second)
		return eu && ap
	})
	batches := int(float64(rate) / 8 * d.Seconds() / noise / shareBatch)
	us.fill(orders, 6, batches, noise)
	<-time.After(late)
	us.fill(second, 6, batches, noise)
	s := &sharedLine{ms: ms, us: us}
	s.step()
	return s
}

// step gives the bytes that each of the links took in the next 5 s.
func (s *sharedLine) step() (got [2]float64) {
	<-time.After(shareStep)
	for i, name := range sharers {
		now := float64(s.us.link(name).ConfirmedBytes)
		got[i], s.last[i] = now-s.last[i], now
	}
	return got
}

// smaller is what the smaller of two is of the larger.
func smaller(of [2]float64) float64 { return min(of[0], of[1]) / max(of[0], of[1], 1) }

// fill has many batches of 100,000 bytes published at once. All are the same bytes, of which a
// part is noise.
func (n *node) fill(t rhumb.Topic, partitions, batches int, noise float64) {
	const count = 100
	batch := makeBatch(count, shareBatch)
	for i := codec.BatchHeaderSize + int(noise*shareBatch); i < len(batch); i++ {
		batch[i] = 'x'
	}
	binary.BigEndian.PutUint32(batch[17:], codec.Checksum(batch[21:]))
	h, err := codec.CheckBatch(batch)
	if err != nil {
		n.mesh.t.Fatal(err)
	}
	r := n.region
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batches {
		l := r.log(t, i%partitions)
		first, last := l.end, l.end+count-1
		e := codec.Envelope{Region: r.number, Life: l.info.Life, First: first, Last: last, Prev: l.ownLast,
			Chain: codec.NextChain(l.ownChain, first, last, h.CRC), AppendTime: time.Now().UnixMilli(), Count: count}
		l.store(e, batch)
		l.ownLast, l.ownChain = last, e.Chain
	}
	for p := range partitions {
		r.signal(r.log(t, p).info.Ref)
	}
}

// TestTwoLinksShareAFastLine: two links that hold much in flight on a line that is full get
// like parts of it from the start on, whatever their data, since both have several
// connections all the time.
func TestTwoLinksShareAFastLine(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of a full line: without -short, as make test runs it")
	}
	for _, noise := range []float64{1, .4} {
		t.Run(fmt.Sprintf("noise %g", noise), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newSharedLine(t, 80*time.Millisecond, 50_000_000, noise, 100*time.Second, 0)
				// Chance gives one of them a fifth more for some seconds; three times in a row it
				// does not.
				for try := range 3 {
					var sum [2]float64
					for range 6 {
						got := s.step()
						for i, name := range sharers {
							sum[i] += got[i]
							if n := s.us.connections(name); n != 4 {
								t.Errorf("%d connections to %s on a full line", n, name)
							}
						}
					}
					if all := (sum[0] + sum[1]) * noise / (6 * shareStep).Seconds(); all < .75*50e6/8 {
						t.Errorf("both together took %.0f bytes per second", all)
					}
					if r := smaller(sum); r >= .8 {
						return
					} else if t.Logf("the smaller got %.2f of the larger", r); try == 2 {
						t.Error("one link has more than a fifth more than the other, again and again")
					}
				}
			})
		})
	}
}

// TestOthersQueueIsNoLongerPath: two links keep the queue of a line full that is many times as
// long as the path. Each has the other's packets before its own whatever its windows do, and
// takes that for no longer path: it would correct the queue's losses and open connections
// without end.
func TestOthersQueueIsNoLongerPath(t *testing.T) {
	for i, rate := range []int64{4_000_000, 20_000_000} {
		if testing.Short() && i != 0 {
			continue // the other takes the same way
		}
		t.Run(fmt.Sprintf("%d Mbit per second", rate/1_000_000), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newSharedLine(t, 10*time.Millisecond, rate, 1, 100*time.Second, 0)
				for range 16 {
					s.step()
					for _, name := range sharers {
						c := s.us.conn(name)
						if c == nil {
							continue
						}
						if n, path := c.pool.report(); path.least > 40*time.Millisecond || n > 8 {
							t.Fatalf("a queue that makes round trips of %s is taken for a path of %s, with %d connections to %s", path.rtt, path.least, n, name)
						}
					}
				}
			})
		})
	}
}

// TestFiguresOfSharedLines prints which parts of a line of 100 Mbit/s two links get that are
// both behind: what the first got of the second in steps of 5 s, with the number of their
// connections, and what the smaller got of the larger in half minutes and in the worst step.
//
//	go test ./replicator -run TestFiguresOfSharedLines -figures -v
func TestFiguresOfSharedLines(t *testing.T) {
	if !*figures {
		t.Skip("prints figures and judges nothing: only with -figures")
	}
	const rate, steps = 100_000_000, 12
	for _, noise := range []float64{1, .4} {
		for range *shareSeeds {
			bubble.Test(t, func(t *testing.T) {
				s := newSharedLine(t, 80*time.Millisecond, rate, noise, (steps+2)*shareStep+*shareLate, *shareLate)
				var half, all [2]float64
				worst, line := 1.0, ""
				var halves []string
				for n := range steps {
					got := s.step()
					for i := range got {
						half[i] += got[i]
						all[i] += got[i]
					}
					worst = min(worst, smaller(got))
					line += fmt.Sprintf(" %.2f (%d, %d)", got[0]/got[1], s.us.connections("eu"), s.us.connections("ap"))
					if n%(steps/2) == steps/2-1 {
						halves, half = append(halves, fmt.Sprintf("%.2f", smaller(half))), [2]float64{}
					}
				}
				t.Logf("noise %g: half minutes %v, worst 5 s %.2f, %.1f MB/s:%s", noise, halves, worst, (all[0]+all[1])/1e6/(steps*shareStep).Seconds(), line)
			})
		}
	}
}
