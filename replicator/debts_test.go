package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// outage is a link that was cut for a minute, in which one topic gathered a large backlog
// and the partitions of another one, which get a record now and then, a little.
type outage struct {
	line     relay.Settings
	behind   int           // partitions of the large backlog
	megs     int           // of it, together
	middling int           // partitions that owe 2 MB each, and get nothing more
	small    int           // partitions that get a record
	each     time.Duration // of them, between two of its records
	size     int           // of a record
	watch    time.Duration // how long it is looked at after the line healed
	limits   Limits
	fault    func(ms *mesh, at time.Duration) // called all the time after the line healed
}

// aftermath is what was seen of one.
type aftermath struct {
	// caught is when, after the line healed, all the small partitions' records younger
	// than freshFor had arrived; the whole watch if that never was so.
	caught time.Duration
	// worst is the age that one of a hundred had of the records published since caught, or
	// of all since the line healed if that never was so.
	worst time.Duration
	// share and debts are what the backlog and the middling partitions took of the line while
	// it was looked at.
	share, debts float64
}

const debtStep = 50 * time.Millisecond

// middling is a topic whose partitions owe less than others, and more than live.
var middling = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "middling"}

// run has it happen.
func (o *outage) run(ms *mesh) (out aftermath) {
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	ms.limits = o.limits
	ms.start()
	us.create(orders, int32(o.behind))
	us.create(middling, int32(max(1, o.middling)))
	us.create(live, int32(o.small))
	ms.until("topics", 30*time.Second, func() bool { return len(eu.region.Topics()) == 3 && ms.linked("us", "eu") })
	x := &smalls{from: us, to: eu, every: max(1, int(o.each/debtStep)), size: o.size, at: make([][]time.Time, o.small), got: make([]int, o.small)}
	x.pass(ms, 3*time.Second, nil)
	ms.until("live flows", 30*time.Second, func() bool { return x.oldest() < freshFor })
	ms.cut("us", "eu", relay.Settings{Cut: true})
	x.pass(ms, 10*time.Second, nil)
	us.fill(orders, o.behind, o.megs*10, 1)
	us.fill(middling, o.middling, 20*o.middling, 1)
	x.pass(ms, 50*time.Second, nil)
	ms.cut("us", "eu", o.line)
	healed := time.Now()
	arrived, owed := eu.bytesOf(orders), eu.bytesOf(middling)
	out.caught = o.watch
	x.pass(ms, o.watch, func(at time.Duration) {
		if o.fault != nil {
			o.fault(ms, at)
		}
		switch late := x.oldest() > freshFor; {
		case late:
			out.caught = o.watch
		case out.caught == o.watch:
			out.caught = at
		}
	})
	since := healed
	if out.caught < o.watch {
		since = healed.Add(out.caught)
	}
	out.worst = x.worst(since)
	whole := float64(o.line.Rate) / 8 * o.watch.Seconds()
	out.share, out.debts = float64(eu.bytesOf(orders)-arrived)/whole, float64(eu.bytesOf(middling)-owed)/whole
	ms.t.Logf("%d small, %d middling, %d MB behind: caught up after %s, one of a hundred older than %s since, backlog has %.2f of the line, middling debts %.2f",
		o.small, o.middling, o.megs, out.caught, out.worst, out.share, out.debts)
	o.settle(ms)
	return out
}

// settle waits until all is there, once and in order.
func (o *outage) settle(ms *mesh) {
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	ms.cut("us", "eu", relay.Settings{Delay: o.line.Delay})
	for t, partitions := range map[rhumb.Topic]int{orders: o.behind, middling: o.middling, live: o.small} {
		for p := range partitions {
			ms.until(fmt.Sprintf("all is there of %s, partition %d", t, p), 5*time.Minute, func() bool { return copied(us, eu, t, p) })
		}
	}
	if o.fault == nil && eu.region.repeats > 0 {
		ms.t.Errorf("%d batches came again on a link that did not break", eu.region.repeats)
	}
}

// bytesOf tells how much a node has of a topic.
func (n *node) bytesOf(t rhumb.Topic) (sum int) {
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	for _, p := range n.region.topics[t].Partitions {
		for _, b := range n.region.logs[p.Ref].batches {
			sum += len(b.Batch)
		}
	}
	return sum
}

// smalls are partitions that get a record now and then.
type smalls struct {
	from, to *node
	every    int // steps between two of one partition
	size     int
	steps    int
	at       [][]time.Time // when they were published
	got      []int         // how many arrived
	ages     []aged
}

// aged is a record that arrived.
type aged struct {
	at  time.Time // when it was published
	age time.Duration
}

// pass publishes for a time.
func (x *smalls) pass(ms *mesh, d time.Duration, each func(at time.Duration)) {
	for at := time.Duration(0); at < d; at += debtStep {
		for p := range x.at {
			if (x.steps+p)%x.every == 0 {
				x.from.produce(live, p, 1, x.size)
				x.at[p] = append(x.at[p], time.Now())
			}
		}
		x.steps++
		ms.pass(debtStep)
		x.look()
		if each != nil {
			each(at)
		}
	}
}

func (x *smalls) look() {
	r := x.to.region
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range x.at {
		for n := len(r.log(live, p).batches); x.got[p] < n; x.got[p]++ {
			at := x.at[p][x.got[p]]
			x.ages = append(x.ages, aged{at, time.Since(at)})
		}
	}
}

// oldest is the age of the oldest record that has not arrived.
func (x *smalls) oldest() (age time.Duration) {
	for p, at := range x.at {
		if n := x.got[p]; n < len(at) {
			age = max(age, time.Since(at[n]))
		}
	}
	return age
}

// worst gives the age that one of a hundred had of those published since a moment, some
// not arrived yet.
func (x *smalls) worst(since time.Time) time.Duration {
	t := &trickle{}
	for _, a := range x.ages {
		if !a.at.Before(since) {
			t.ages, t.at = append(t.ages, a.age), append(t.at, a.at)
		}
	}
	for p, all := range x.at {
		for _, at := range all[x.got[p]:] {
			if !at.Before(since) {
				t.at = append(t.at, at)
			}
		}
	}
	if len(t.at) == 0 {
		return 0
	}
	return t.worst()
}

// restarts has a node killed and started again.
func restarts(name rhumb.RegionName, when time.Duration) func(*mesh, time.Duration) {
	return func(ms *mesh, at time.Duration) {
		if at == when {
			ms.nodes[name].kill()
			ms.nodes[name].start()
		}
	}
}

// megabyte is a line of 1 MB/s, slow one of 60 KB/s.
var (
	megabyte = relay.Settings{Delay: 40 * time.Millisecond, Rate: 8_000_000}
	slow     = relay.Settings{Delay: 20 * time.Millisecond, Rate: 480_000, Queue: 18_000}
)

// trickling is a topic of ten records a second, scattered one of 500 partitions with one each.
var (
	trickling = outage{line: megabyte, limits: Limits{Connections: 1}, behind: 32, megs: 160, small: 1, each: 100 * time.Millisecond, size: 300, watch: time.Minute}
	scattered = outage{line: megabyte, limits: Limits{Connections: 1}, behind: 8, megs: 96, small: 500, each: time.Second, size: 100, watch: time.Minute}
)

// scant is a link's share of the memory where there is little of that, or many links.
var scant = Limits{Connections: 1, SendBudget: 1 << 20, Window: 1 << 20}

// with gives an outage that differs a little.
func (o outage) with(change func(*outage)) outage {
	change(&o)
	return o
}

// TestSmallDebtsPassBacklog: a topic of few records, of which a minute is owed after an
// outage, is new again within seconds, whatever the others owe; the backlog goes on meanwhile.
func TestSmallDebtsPassBacklog(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of a full line: without -short, as make test runs it")
	}
	for _, c := range []struct {
		name   string
		outage outage
		caught time.Duration // at most
		worst  time.Duration // at most
		share  float64       // of the backlog, at least
		debts  float64       // of the middling ones, at least
	}{
		{"one", trickling, 8 * time.Second, 2 * time.Second, .75, 0},
		{"500", scattered, 45 * time.Second, 2 * time.Second, .4, 0},
		{"one, slow line", trickling.with(func(o *outage) { o.line, o.behind, o.megs = slow, 8, 40 }), 50 * time.Second, 5 * time.Second, .3, 0},
		{"one, slow line, little memory", trickling.with(func(o *outage) { o.line, o.behind, o.megs, o.limits = slow, 8, 40, scant }), 50 * time.Second, 5 * time.Second, .3, 0},
		{"500, little memory", scattered.with(func(o *outage) { o.limits = scant }), 45 * time.Second, 2 * time.Second, .4, 0},
		{"one, many connections", trickling.with(func(o *outage) { o.limits = Limits{} }), 15 * time.Second, 4 * time.Second, .6, 0},
		{"one, rate limit", trickling.with(func(o *outage) { o.limits.Rate = 500_000 }), 15 * time.Second, 4 * time.Second, .35, 0},
		{"one among debts that fill the line", trickling.with(func(o *outage) { o.middling = 64 }), 40 * time.Second, 6 * time.Second, .35, .3},
		{"one, cut again", trickling.with(func(o *outage) {
			o.fault = func(ms *mesh, at time.Duration) {
				switch at {
				case time.Second:
					ms.cut("us", "eu", relay.Settings{Cut: true})
				case 11 * time.Second:
					ms.cut("us", "eu", o.line)
				}
			}
		}), 30 * time.Second, 4 * time.Second, .5, 0},
		{"500, destination killed", scattered.with(func(o *outage) { o.fault = restarts("eu", 4*time.Second) }), 50 * time.Second, 4 * time.Second, .35, 0},
		{"500, source killed", scattered.with(func(o *outage) { o.fault = restarts("us", 4*time.Second) }), 50 * time.Second, 4 * time.Second, .35, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.outage.line, usEu, func(ms *mesh) {
				out := c.outage.run(ms)
				if out.caught > c.caught || out.worst > c.worst {
					t.Errorf("caught up after %s, want %s; one of a hundred older than %s since, want %s", out.caught, c.caught, out.worst, c.worst)
				}
				if out.share < c.share || out.debts < c.debts {
					t.Errorf("the backlog took %.2f of the line, want %.2f; middling debts %.2f, want %.2f", out.share, c.share, out.debts, c.debts)
				}
			})
		})
	}
}

// TestDebtsNeedAPeerThatTakesThem: one that takes fewer lanes would have a stream wait for ever.
func TestDebtsNeedAPeerThatTakesThem(t *testing.T) {
	l := &link{turns: [classes]*gate{newGate(1), newGate(1), newGate(1)}, behind: newGate(1)}
	for features, want := range map[uint64]class{featuresOptional: debt, featuresOptional &^ featureDebts: backlog} {
		f := &flow{link: l, owed: 1000}
		if got := f.classify(&conn{features: features}, time.Minute); got != want {
			t.Errorf("with features %b old records of which little is owed are of class %d, want %d", features, got, want)
		}
	}
}

// TestDebtsOfAMoveEndWithThePeer: a flow that was to move to a lane for debts when its connection
// ended goes on as backlog over one to a peer that takes no such lanes.
func TestDebtsOfAMoveEndWithThePeer(t *testing.T) {
	l := &link{turns: [classes]*gate{newGate(1), newGate(1), newGate(1)}, send: newGate(1), owing: newGate(1), behind: newGate(1)}
	for features, want := range map[uint64]class{featuresOptional: debt, featuresOptional &^ featureDebts: backlog} {
		s := &sending{flow: &flow{link: l, owed: 1000, class: debt, placed: true}, conn: &conn{features: features}}
		s.place(100)
		if s.kind != want || s.flow.class != want || s.ledger.budget != l.allot(want) {
			t.Errorf("with features %b the session has a lane of class %d and reads as class %d, want %d and the budget of that", features, s.kind, s.flow.class, want)
		}
	}
}

// TestRankOfDebts: a large debt waits for small ones that come later, by four minutes at most, however large it grew.
func TestRankOfDebts(t *testing.T) {
	for _, owed := range []int64{debtMost, debtOnce} {
		bubble.Test(t, func(t *testing.T) {
			large, small := &flow{class: debt, owed: owed}, &flow{class: debt, owed: 10_000}
			before := large.rank(1000)
			<-time.After(debtWait - time.Second)
			if small.rankAfter(9, 10) >= before {
				t.Errorf("a small debt does not pass one of %d bytes that came just less than four minutes before", owed)
			}
			<-time.After(time.Second)
			if small.rankAfter(9, 10) <= before {
				t.Errorf("a small debt passes one of %d bytes that came four minutes before", owed)
			}
		})
	}
}

// TestDebtKeepsItsRank: for all its turns, until what was owed when it came is read, and no
// longer than it is a debt.
func TestDebtKeepsItsRank(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &flow{class: debt, owed: debtMost}
		came := f.rankAfter(9, 1000)
		<-time.After(time.Minute)
		f.owed = debtOnce // what came since
		for _, after := range []rhumb.Offset{500, 9, 998} {
			if f.rankAfter(after, 2000) != came || f.rank(2000) != came {
				t.Errorf("what comes after %d of a debt up to 1000 has another rank than its beginning", after)
			}
		}
		next := f.rankAfter(999, 2000)
		if next <= came {
			t.Error("what came later has the rank of what came first: who always owes goes before all others for ever")
		}
		f.class = backlog
		if f.rank(2000) != 0 {
			t.Error("backlog has a rank")
		}
		<-time.After(time.Minute)
		f.class = debt
		if f.rank(2000) <= next {
			t.Error("a new debt has the rank of a former one")
		}
	})
}

// TestLargeDebtIsPaidAmongSmallOnes: where small debts fill the line all the time, a large one
// waits for them once, not before each of its turns.
func TestLargeDebtIsPaidAmongSmallOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of a full line: without -short, as make test runs it")
	}
	inBubble(t, slow, usEu, func(ms *mesh) {
		const watch, most = 8 * time.Minute, 7 * time.Minute
		paid := watch
		o := outage{line: slow, limits: Limits{Connections: 1}, behind: 1, middling: 1, small: 50, each: time.Second, size: 1400, watch: watch}
		o.fault = func(ms *mesh, at time.Duration) {
			if paid == watch && copied(ms.nodes["us"], ms.nodes["eu"], middling, 0) {
				paid = at
			}
		}
		if o.run(ms); paid > most {
			t.Errorf("2 MB that were owed among small debts were paid after %s, want %s", paid, most)
		}
	})
}
