package replicator

import (
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// live is a topic of small records that are new all the time.
var live = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "live"}

// trickle is what a topic of one record at a time saw on its way.
type trickle struct {
	from, to *node
	at       []time.Time     // when they were published
	ages     []time.Duration // of those that arrived, at that moment
}

// step publishes one more record, and notes which have arrived.
func (x *trickle) step(publish bool) {
	if publish {
		x.from.produce(live, 0, 1, 300)
		x.at = append(x.at, time.Now())
	}
	for n := len(x.to.region.own(live, 0, x.from.self.Number)); len(x.ages) < n; {
		x.ages = append(x.ages, time.Since(x.at[len(x.ages)]))
	}
}

// worst gives the age that one of a hundred had, of all that were published, some not
// arrived yet.
func (x *trickle) worst() time.Duration {
	ages := slices.Clone(x.ages)
	for _, at := range x.at[len(ages):] {
		ages = append(ages, time.Since(at))
	}
	slices.Sort(ages)
	return ages[len(ages)*99/100]
}

// TestG94FreshDataPassesLargeBatches: on a slow line new records do not wait until a batch
// of backlog is through, however large that is and however many partitions are behind.
func TestG94FreshDataPassesLargeBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of a slow line")
	}
	const kb = 8 * 1000
	slow := relay.Settings{Delay: 20 * time.Millisecond, Rate: 60 * kb, Queue: 18_000}
	lossy := relay.Settings{Delay: 20 * time.Millisecond, Rate: 400 * kb, Queue: 120_000, Loss: .01}
	one := Limits{Connections: 1}
	for _, c := range []struct {
		name       string
		line       relay.Settings
		limits     Limits
		partitions int32
		batches    int // of each partition
		fault      bool
		most       time.Duration
	}{
		{"8 batches of 1 MB", slow, one, 8, 1, false, 4 * time.Second},
		{"16 batches of 1 MB", slow, one, 16, 1, false, 4 * time.Second},
		{"several connections", slow, Limits{}, 8, 1, false, 15 * time.Second}, // that find the line full
		{"loss", lossy, Limits{}, 16, 2, false, 8 * time.Second},
		{"faults in the middle", slow, one, 8, 1, true, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.line, usEu, func(ms *mesh) {
				ms.limits = c.limits
				ms.behindAndLive(c.partitions, c.batches, c.fault, c.most)
			})
		})
	}
}

// behindAndLive has us fall behind with batches of 1 MB, and both regions publish small
// records until they are through. Of these one of a hundred may be older than most.
func (ms *mesh) behindAndLive(partitions int32, batches int, fault bool, most time.Duration) {
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	ms.start()
	us.create(orders, partitions)
	us.create(live, 1)
	ms.until("eu has the topics", 10*time.Second, func() bool { return len(eu.region.Topics()) == 2 })
	us.produce(live, 0, 1, 300)
	eu.produce(live, 0, 1, 300)
	ms.until("live flows", 10*time.Second, func() bool { return copied(us, eu, live, 0) && copied(eu, us, live, 0) })
	eu.kill()
	for i := range int(partitions) * batches {
		us.produce(orders, i%int(partitions), 100, 1_000_000)
	}
	ms.pass(10 * time.Second)
	eu.start()
	ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
	linked := time.Now()
	ms.until("the backlog flows", time.Minute, func() bool { return us.link("eu").SentBytes > 0 })
	there, back := &trickle{from: us, to: eu}, &trickle{from: eu, to: us}
	there.at, back.at = make([]time.Time, 1), make([]time.Time, 1)
	there.ages, back.ages = make([]time.Duration, 1), make([]time.Duration, 1)
	through := func() bool {
		for p := range int(partitions) {
			if !copied(us, eu, orders, p) {
				return false
			}
		}
		return true
	}
	began := time.Now()
	for i := 0; !through(); i++ {
		if time.Since(began) > 20*time.Minute {
			ms.t.Fatalf("the backlog is not through after %s", time.Since(began))
		}
		if fault && i == 300 {
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.pass(500 * time.Millisecond)
			ms.cut("us", "eu", ms.net.def)
		}
		if fault && i == 600 {
			eu.kill()
			eu.start()
		}
		there.step(true)
		back.step(true)
		ms.pass(time.Second / 15)
	}
	took := time.Since(began)
	ms.until("all is there", time.Minute, func() bool { return copied(us, eu, live, 0) && copied(eu, us, live, 0) })
	for _, x := range []*trickle{there, back} {
		x.step(false)
		if l := x.from.manager.link(x.to.self.Name); !fault && l.renewedAt().After(linked) {
			ms.t.Errorf("%s took its own queue for a longer path, and made the connection anew", x.from.self.Name)
		}
		ms.t.Logf("%s: %d records in %s, one of a hundred older than %s", x.from.self.Name, len(x.at), took, x.worst())
		if x.worst() > most {
			ms.t.Errorf("new records of %s waited for the backlog: %s", x.from.self.Name, x.worst())
		}
	}
}

// renewedAt tells when a connection was last made anew because of another path.
func (l *link) renewedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// TestClassOf: who was behind counts as new again only when it is well below the border, and
// as one who owes little only when it owes far less and others are behind, too.
func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		age       time.Duration
		owed      int64
		had, want class
		crowded   bool
	}{
		{0, 1 << 40, fresh, fresh, true}, {freshFor, 1 << 40, fresh, fresh, true},
		{freshFor + 1, debtMost, fresh, debt, false}, {freshFor + 1, debtMost + 1, fresh, backlog, false},
		{freshFor, 1, backlog, backlog, false}, {freshAgain + 1, 1, backlog, backlog, false}, {freshAgain, 1 << 40, backlog, fresh, false},
		{freshFor, debtAgain, backlog, debt, true}, {freshAgain + 1, debtAgain + 1, backlog, backlog, true},
		{freshFor, debtOnce, debt, debt, false}, {freshAgain + 1, debtOnce + 1, debt, backlog, true}, {freshAgain, debtOnce, debt, fresh, false},
	} {
		if got := classOf(c.age, c.owed, c.had, c.crowded); got != c.want {
			t.Errorf("records of age %s of a partition that owes %d, after class %d, are of class %d, want %d", c.age, c.owed, c.had, got, c.want)
		}
	}
}

// TestPrecedence: backlog waits while new data is written, no longer than it may, and
// not for a lane that is gone.
func TestPrecedence(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var p precedence
		waits := func(gone <-chan struct{}) time.Duration {
			began := time.Now()
			p.yield(time.Second, gone)
			return time.Since(began)
		}
		if d := waits(nil); d != 0 {
			t.Errorf("it waited for nobody, %s", d)
		}
		p.begin()
		p.begin()
		if d := waits(nil); d != time.Second {
			t.Errorf("it waited %s, may wait a second", d)
		}
		gone := make(chan struct{})
		close(gone)
		if d := waits(gone); d != 0 {
			t.Errorf("on a lane that is gone it waited %s", d)
		}
		time.AfterFunc(100*time.Millisecond, p.end)
		time.AfterFunc(300*time.Millisecond, p.end)
		if d := waits(nil); d != 300*time.Millisecond {
			t.Errorf("it waited %s for the last one, who took 300 ms", d)
		}
	})
}
