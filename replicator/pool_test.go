package replicator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// conn gives the connection of a node's link, nil if there is none.
func (n *node) conn(peer rhumb.RegionName) *conn {
	l := n.manager.link(peer)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// want has a node send over so many connections, whatever it measures.
func (n *node) want(connections int) { n.manager.fixed.Store(int64(connections)) }

func (n *node) connections(peer rhumb.RegionName) int { return n.link(peer).Connections }

// members gives the connections that joined a node's.
func (n *node) members(peer rhumb.RegionName) []*member {
	c := n.conn(peer)
	if c == nil {
		return nil
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return append([]*member(nil), c.pool.members...)
}

// TestI3ConnectionsComeAndGo: while records are copied both ways over a bad line,
// connections are added, given back and killed at random, now and then the first one
// with all others; every record arrives once and in order, and at the end one
// connection is left.
func TestI3ConnectionsComeAndGo(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		inBubble(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .01, Reorder: .01, Duplicate: .01}, usEu, func(ms *mesh) {
			rnd := rand.New(rand.NewPCG(seed, 6))
			ms.limits = Limits{Connections: 8, Lanes: 3}
			ms.start()
			us, eu := ms.nodes["us"], ms.nodes["eu"]
			us.create(orders, 5)
			ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
			ms.until("topic", 10*time.Second, func() bool {
				info, ok := eu.region.Topic(orders)
				return ok && len(info.Partitions) == 5
			})
			most := 0
			for range 150 {
				for _, n := range ms.nodes {
					n.produce(orders, rnd.IntN(5), 1+rnd.IntN(3), rnd.IntN(60_000))
				}
				n := us
				peer := rhumb.RegionName("eu")
				if rnd.IntN(2) == 0 {
					n, peer = eu, "us"
				}
				switch all := n.members(peer); rnd.IntN(10) {
				case 0, 1:
					n.want(1 + rnd.IntN(8))
				case 2:
					if len(all) > 0 {
						_ = all[rnd.IntN(len(all))].qc.CloseWithError(codeStuck, "killed by the test")
					}
				case 3:
					if c := n.conn(peer); c != nil && rnd.IntN(4) == 0 {
						c.end(errStuck)
					}
				}
				most = max(most, us.connections("eu"))
				time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
			}
			for p := range 5 {
				ms.until("copied both ways", time.Minute, func() bool { return copied(us, eu, orders, p) && copied(eu, us, orders, p) })
			}
			us.want(1)
			eu.want(1)
			ms.until("one connection is left", time.Minute, func() bool { return us.connections("eu") == 1 && eu.connections("us") == 1 })
			if most < 4 {
				ms.t.Errorf("no more than %d connections: nothing was tested", most)
			}
		})
	}
}

// TestOnePartitionUsesAllConnections, and gets faster by it, on a line that loses; what
// nobody needs any more is given back.
func TestOnePartitionUsesAllConnections(t *testing.T) {
	took := map[int]time.Duration{}
	for _, most := range []int{1, 8} {
		inBubble(t, relay.Settings{Delay: 50 * time.Millisecond, Loss: .01}, usEu, func(ms *mesh) {
			ms.limits = Limits{Connections: most}
			ms.correction = uncorrected // else one connection has the speed of all
			ms.start()
			us, eu := ms.nodes["us"], ms.nodes["eu"]
			us.create(orders, 1)
			ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
			for range 80 {
				us.produce(orders, 0, 10, 100_000)
			}
			began, seen := time.Now(), 0
			ms.until("copied", 5*time.Minute, func() bool {
				seen = max(seen, us.connections("eu"))
				return copied(us, eu, orders, 0)
			})
			took[most] = time.Since(began)
			// How many it takes until the backlog is copied is the climber's affair: what
			// counts is below, that they bring more.
			if seen > most || seen < min(most, 2) {
				ms.t.Errorf("%d connections, at most %d", seen, most)
			}
			ms.until("one connection is left", 5*time.Minute, func() bool { return us.connections("eu") == 1 && eu.connections("us") == 1 })
			if n := us.link("eu").ConnectionsLost; n > 0 {
				ms.t.Errorf("%d connections were lost", n)
			}
		})
	}
	if took[8]*2 > took[1] {
		t.Errorf("with 8 connections %s, with one %s", took[8], took[1])
	}
}

// TestPeerThatTakesFewer: an older version and one that is set to fewer get no more
// than they take.
func TestPeerThatTakesFewer(t *testing.T) {
	for _, takes := range []int{1, 3} {
		inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
			us, eu := ms.nodes["us"], ms.nodes["eu"]
			eu.limits = &Limits{Connections: takes}
			ms.start()
			us.create(orders, 3)
			us.want(20)
			eu.want(20)
			for i := range 60 {
				us.produce(orders, i%3, 1, 20_000)
				time.Sleep(100 * time.Millisecond)
			}
			ms.until("copied", 10*time.Second, func() bool { return copied(us, eu, orders, 0) && copied(us, eu, orders, 2) })
			if a, b := us.connections("eu"), eu.connections("us"); a != takes || b != takes {
				ms.t.Errorf("%d and %d connections, want %d", a, b, takes)
			}
			if us.link("eu").Connects != 1 {
				ms.t.Errorf("the link was connected %d times", us.link("eu").Connects)
			}
		})
	}
}

// TestOtherSideDials: only the higher number can dial, the lower one has the backlog.
func TestOtherSideDials(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) { return nil, errors.New("no route") }
		ms.start()
		us.create(orders, 1)
		us.want(6)
		ms.until("six connections that eu dialled", 20*time.Second, func() bool {
			return us.connections("eu") == 6 && eu.link("us").Dialled
		})
		us.produce(orders, 0, 3, 100)
		ms.until("copied", 10*time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

// TestCutWithManyConnections: a line that is cut for a minute is noticed within seconds,
// and comes back with as many connections as there were.
func TestCutWithManyConnections(t *testing.T) {
	line := relay.Settings{Delay: 50 * time.Millisecond, Loss: .01}
	inBubble(t, line, usEu, func(ms *mesh) {
		ms.limits = Limits{Connections: 8}
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		us.want(8)
		ms.until("connected", 20*time.Second, func() bool { return us.connections("eu") == 8 })
		us.produce(orders, 0, 3, 200_000)
		ms.cut("us", "eu", relay.Settings{Cut: true})
		ms.until("both notice", 8*time.Second, func() bool { return !us.connected("eu") && !eu.connected("us") })
		for range 60 {
			us.produce(orders, 0, 1, 10_000)
			time.Sleep(time.Second)
		}
		ms.cut("us", "eu", line)
		ms.until("the link is back", 3*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.until("all connections are back", 6*time.Second, func() bool { return us.connections("eu") == 8 })
		ms.until("copied", 20*time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

// TestJoinIsRefused: nobody joins a connection that is not theirs, nor one that is not
// there, and nothing comes of trying.
func TestJoinIsRefused(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		ap := ms.nodes["ap"]
		delete(ms.nodes, "ap") // it is played by the test
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		join := func(src *certs.Source, id rhumb.UUID, number uint16) error {
			socket := ms.net.socket(&net.UDPAddr{IP: net.IPv4(9, 9, 9, 9), Port: 9})
			defer func() { _ = socket.Close() }()
			transport := &quic.Transport{Conn: socket}
			defer func() { _ = transport.Close() }()
			qc, err := transport.Dial(context.Background(), eu.addr, certs.LinkClient(src, ms.id, "eu"), &quic.Config{MaxIdleTimeout: idleTimeout})
			if err != nil {
				return err
			}
			defer func() { _ = qc.CloseWithError(codeClosing, "") }()
			stream, err := qc.OpenStream()
			if err != nil {
				return err
			}
			if _, err := stream.Write(wire.Append(nil, &wire.Join{Pool: id, Number: number})); err != nil {
				return err
			}
			_, err = wire.NewReader(stream, noBudget{}).Next()
			return err
		}
		id := eu.conn("us").pool.id
		for name, err := range map[string]error{
			"certificate of another region": join(ap.certs, id, 1),
			"unknown connection":            join(us.certs, rhumb.NewUUID(), 1),
			"number of the first":           join(us.certs, id, 0),
		} {
			var app *quic.ApplicationError
			if !errors.As(err, &app) || app.ErrorCode != codeSuperseded {
				ms.t.Errorf("%s: %v", name, err)
			}
		}
		if err := join(us.certs, id, 1); err != nil {
			ms.t.Errorf("the peer itself: %v", err)
		}
		synctest.Wait()
		ms.until("they are gone", 10*time.Second, func() bool { return eu.connections("us") == 1 })
		if !ms.linked("us", "eu") || us.link("eu").Connects != 1 {
			ms.t.Error("the link was touched")
		}
	})
}

// TestPathGetsLonger: a link that was near and quiet finds that its path has become a
// long bad one, and opens connections when there is something to send.
func TestPathGetsLonger(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 100 * time.Microsecond}, usEu, func(ms *mesh) {
		ms.limits = Limits{Connections: 8}
		ms.correction = uncorrected // else it needs fewer
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		us.produce(orders, 0, 1, 1000)
		ms.until("copied", 10*time.Second, func() bool { return copied(us, eu, orders, 0) })
		ms.cut("us", "eu", relay.Settings{Delay: 100 * time.Millisecond, Loss: .01})
		time.Sleep(20 * time.Second)
		for range 400 { // more than is through before all are open
			us.produce(orders, 0, 10, 100_000)
		}
		ms.until("all connections are used", 30*time.Second, func() bool { return us.connections("eu") == 8 })
	})
}

// TestPathGetsLongerUnderLoad: a path becomes a long bad one while there is more to send than it
// takes. The link does not take it for a queue for minutes: it corrects, opens
// connections, and a backlog goes through.
func TestPathGetsLongerUnderLoad(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Millisecond, 100 * time.Microsecond, 10 * time.Millisecond} {
		if testing.Short() && delay != 2*time.Millisecond {
			continue // the others take the same way
		}
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, relay.Settings{Delay: delay, Rate: 4 << 20}, usEu, func(ms *mesh) {
				ms.start()
				us, eu := ms.nodes["us"], ms.nodes["eu"]
				us.create(orders, 4)
				for i := range 600 {
					us.produce(orders, i%4, 10, 100_000)
				}
				ms.until("the backlog flows", time.Minute, func() bool { return us.link("eu").SentBytes > 8<<20 })
				ms.cut("us", "eu", relay.Settings{Delay: 100 * time.Millisecond, Loss: .01})
				began := time.Now()
				ms.until("corrected", 90*time.Second, func() bool { return us.link("eu").Correction.Code != "off" })
				corrected := time.Since(began)
				for p := range 4 {
					ms.until("copied over the longer path", time.Minute, func() bool { return copied(us, eu, orders, p) })
				}
				t.Logf("corrected after %s, copied after %s", corrected, time.Since(began))
			})
		})
	}
}

// TestOwnQueueIsNoLongerPath: a backlog fills the queue of a narrow line, which makes a round
// trip many times as long. That it is a queue stays known, however many connections share it.
func TestOwnQueueIsNoLongerPath(t *testing.T) {
	for i, x := range []struct {
		connections, queue int
		loss               float64
		rate               int64 // bits per second
	}{{1, 100 << 10, 0, 8 << 20}, {1, 1 << 20, .01, 8 << 20}, {4, 32 << 10, 0, 8 << 20}, {4, 100 << 10, .002, 8 << 20}, {8, 100 << 10, .01, 8 << 20}, {16, 32 << 10, .002, 8 << 20},
		{16, 1 << 20, 0, 8 << 20}, {64, 32 << 10, .01, 8 << 20}, {64, 100 << 10, 0, 8 << 20}, {8, 64 << 10, .002, 2 << 20}} {
		if testing.Short() && i%4 != 2 {
			continue // some of them, for the race detector
		}
		t.Run(fmt.Sprintf("%d connections, a queue of %d KiB, %g %% lost, %d Mbit per second", x.connections, x.queue>>10, 100*x.loss, x.rate>>20), func(t *testing.T) {
			inBubble(t, relay.Settings{Delay: 2 * time.Millisecond, Rate: x.rate, Queue: x.queue, Loss: x.loss}, usEu, func(ms *mesh) {
				ms.start()
				us, eu := ms.nodes["us"], ms.nodes["eu"]
				us.want(x.connections)
				us.create(orders, 1)
				for range 300 {
					us.produce(orders, 0, 10, 100_000)
				}
				longest := time.Duration(0)
				for !copied(us, eu, orders, 0) {
					ms.pass(time.Second)
					c := us.conn("eu")
					if c == nil {
						continue
					}
					_, path := c.pool.report()
					longest = max(longest, path.rtt)
					if path.least > 20*time.Millisecond {
						t.Errorf("a queue that makes round trips of %s is taken for a path of %s", path.rtt, path.least)
						return
					}
				}
				if longest < 25*time.Millisecond {
					t.Errorf("the queue made round trips of %s only", longest)
				}
			})
		})
	}
}
