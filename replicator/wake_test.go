package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestG43ADroppedLinkWakesTheOneThatIsLeft: a session of a link that is being dropped may be
// the one that sees a partition grow. It is not of the only link that there is: its link is
// none any more, and on the other one nobody else would wake what sleeps.
func TestG43ADroppedLinkWakesTheOneThatIsLeft(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, ap := ms.nodes["us"], ms.nodes["ap"]
		us.create(orders, 1)
		ms.start()
		ms.until("topic", 5*time.Second, func() bool { return len(ap.region.Topics()) == 1 })
		us.produce(orders, 0, 1, 100)
		ms.until("copied", 5*time.Second, func() bool { return copied(us, ap, orders, 0) })
		ms.pass(30 * time.Second) // all sessions close
		m, ref := us.manager, us.region.log(orders, 0).info.Ref
		dropped := m.link("eu")
		dropped.mu.Lock()
		by := dropped.flows[dropped.base[ref].key()]
		dropped.mu.Unlock()

		m.watcher.hold(ref) // as the session of by does
		us.produce(orders, 0, 1, 100)
		m.list.Store(&[]*link{m.link("ap")}) // as drop does
		m.noticed(by, 1)
		m.watcher.unhold(ref, 1<<40) // it has seen all that there is
		ms.until("ap has the second record", time.Second, func() bool { return copied(us, ap, orders, 0) })
	})
}

// TestG43GrowthWakesEveryLinkDuringABacklog: a session that sends a backlog for minutes
// tells other links of what grows meanwhile, as they sleep.
func TestG43GrowthWakesEveryLinkDuringABacklog(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, ap := ms.nodes["us"], ms.nodes["ap"]
		for i := range ms.policy.edges {
			if e := &ms.policy.edges[i]; e.From == "us" && e.To == "eu" {
				e.Rate = 100_000
			}
		}
		us.create(orders, 1)
		ms.start()
		ms.until("topic", 5*time.Second, func() bool { return len(ap.region.Topics()) == 1 })
		for range 300 {
			us.produce(orders, 0, 1, 30_000)
		}
		ms.until("ap has all", 10*time.Second, func() bool { return copied(us, ap, orders, 0) })
		ms.pass(30 * time.Second) // the session to ap closes, the one to eu has a minute to go
		if ap, eu := us.flow("ap"), us.flow("eu"); ap.State != SessionIdle || eu.Lag.Records < 100 {
			ms.t.Fatalf("ap is %s, eu lacks %d records", ap.State, eu.Lag.Records)
		}
		us.produce(orders, 0, 1, 100)
		ms.until("ap has the last record", 2*time.Second, func() bool { return copied(us, ap, orders, 0) })
	})
}

// TestG43GrowthWakesEveryLinkWhileOthersHaveTheBudget: nor is it late for one link that the
// session which holds the partition waits for room on another one.
func TestG43GrowthWakesEveryLinkWhileOthersHaveTheBudget(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		const partitions = 20
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		ms.limits.SendBudget, ms.limits.Read = 128<<10, 64<<10
		us.create(orders, partitions)
		ms.start()
		for _, r := range []*fakeRegion{eu.region, ap.region} {
			ms.until("topic", 10*time.Second, func() bool { return len(r.Topics()) == 1 })
		}
		ap.region.mu.Lock()
		ap.region.delay = 3 * time.Second
		ap.region.mu.Unlock()
		copied := func() bool {
			for p := range partitions {
				if !copied(us, eu, orders, p) {
					return false
				}
			}
			return true
		}
		for i := range 20 * partitions {
			us.produce(orders, i%partitions, 1, 20_000)
		}
		ms.until("eu has all", 10*time.Second, copied)
		ms.pass(30 * time.Second) // the sessions to eu close, those to ap stand in line
		for p := range partitions {
			us.produce(orders, p, 1, 100)
		}
		ms.until("eu has the last records", 3*time.Second, copied)
	})
}

// TestRecordThatComesAsTheSessionEnds: it comes at the very moment at which the session has
// been idle for long enough. Whoever is first, it does not wait for the next record.
func TestRecordThatComesAsTheSessionEnds(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		ms.start()
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.until("topic", 5*time.Second, func() bool { return len(eu.region.Topics()) == 1 })
		for n := range 300 {
			us.produce(orders, 0, 1, 100)
			ms.pass(defaultIdle / 2)
			if !copied(us, eu, orders, 0) {
				ms.t.Fatalf("record %d is not there %s later: %+v", n, defaultIdle/2, us.flow("eu"))
			}
			ms.pass(defaultIdle / 2)
		}
	})
}
