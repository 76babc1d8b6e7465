package cases

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

var usEu = []rhumb.RegionName{"us", "eu"}

// pair is run on two regions that share a topic of one partition.
func pair(t *testing.T, story func(ms *mesh, us, eu *node)) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		nodes[0].create(orders, 1, nil)
		ms.everywhere(orders, 1)
		story(ms, nodes[0], nodes[1])
	})
}

// same checks that a copy has exactly these values of an origin, in order.
func (ms *mesh) same(origin, dest *node, want []string) {
	ms.Helper()
	if got := dest.from(origin, orders, 0); !slices.Equal(got, want) {
		ms.Errorf("%s has %d values of %s, want %d:\n%.300q\n%.300q", dest.name, len(got), origin.name, len(want), got, want)
	}
}

func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// TestG04RestartKeepsTheBacklog: a region restarts, twice, with a backlog that
// another one lacks. Where to go on is known by the destination alone.
func TestG04RestartKeepsTheBacklog(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		values := numbered("v", 200)
		us.produce(orders, 0, values[:10]...)
		ms.untilCopied(us, eu, orders, 0)
		ms.path(us, eu, relay.Settings{Cut: true})
		for i := 10; i < len(values); i++ {
			us.produce(orders, 0, values[i])
			if i%80 == 0 {
				us.kill()
				us.start()
			}
		}
		eu.kill()
		eu.start()
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, values)
	})
}

// TestG19G25RestartsUnderLoad: the destination is killed again and again, and the
// line flaps, while records flow. In the end it has each of them once, in order.
func TestG19G25RestartsUnderLoad(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		values := numbered("v", 300)
		bad := relay.Settings{Delay: 20 * time.Millisecond, Loss: .02, Duplicate: .02, Reorder: .02}
		ms.path(us, eu, bad)
		for i, v := range values {
			us.produce(orders, 0, v)
			ms.pass(100 * time.Millisecond)
			switch i % 60 {
			case 30:
				eu.kill()
			case 40:
				eu.start()
			case 50:
				ms.path(us, eu, relay.Settings{Cut: true})
			case 55:
				ms.path(us, eu, bad)
			}
		}
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, values)
	})
}

// TestG13ExpiredBeforeItCrossedIsCounted: retention that waits for nobody deletes what
// a cut-off region has not got. The rest comes, and what does not is a gap with its reason.
func TestG13ExpiredBeforeItCrossedIsCounted(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.backlog(0, configstore.AtLimitGap)
		us.create(orders, 1, brief)
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "before")
		ms.untilCopied(us, eu, orders, 0)
		ms.path(us, eu, relay.Settings{Cut: true})
		us.produce(orders, 0, "lost1", "lost2")
		ms.pass(3 * time.Minute)
		us.produce(orders, 0, "after")
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 1 || gaps[0].From != 1 || gaps[0].To != 2 || gaps[0].Reason != rhumb.ReasonRetention {
			t.Fatalf("gaps %+v", gaps)
		}
		if got := eu.from(us, orders, 0); !slices.Contains(got, "after") || slices.Contains(got, "lost1") {
			t.Fatalf("eu has %q", got)
		}
	})
}

// TestI3GapsSayWhatHappened: an operator deletes some records and retention others
// while a region is cut off. Each range is a gap with its own reason.
func TestI3GapsSayWhatHappened(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.backlog(0, configstore.AtLimitGap)
		us.create(orders, 1, brief)
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "before")
		ms.untilCopied(us, eu, orders, 0)
		ms.path(us, eu, relay.Settings{Cut: true})
		us.produce(orders, 0, "deleted1", "deleted2")
		if _, err := us.region().DeleteRecords(context.Background(), us.partition(orders, 0).Ref, 3); err != nil {
			t.Fatal(err)
		}
		us.produce(orders, 0, "expired")
		ms.pass(7 * time.Minute)
		us.produce(orders, 0, "after")
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 2 || gaps[0].From != 1 || gaps[0].To != 2 || gaps[0].Reason != rhumb.ReasonDeleted ||
			gaps[1].From != 3 || gaps[1].To != 3 || gaps[1].Reason != rhumb.ReasonRetention {
			t.Fatalf("gaps %+v", gaps)
		}
	})
}

// TestG22G38NoLimitOfTheDestinationRefuses: a batch that is larger than what the
// destination takes from its own producers crosses all the same, once, and holds
// up nobody.
func TestG22G38NoLimitOfTheDestinationRefuses(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		us.create(orders, 1, map[string]string{"max.message.bytes": "1000"})
		ms.everywhere(orders, 1)
		big := strings.Repeat("x", 5<<20)
		us.produce(orders, 0, "small")
		us.produce(orders, 0, big)
		us.produce(orders, 0, "next")
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, []string{"small", big, "next"})
	})
}

// TestG65TimesArePayload: the clocks of producers are hours apart and go back.
// Places are by origin offset; times are carried and mean nothing for the order.
func TestG65TimesArePayload(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		var want []string
		start := time.Now()
		for i := range 20 {
			v := fmt.Sprint("v", i)
			skew := time.Duration(i%3-1) * time.Hour
			ms.must(us.append(orders, 0, batch{time: start.Add(skew), values: []string{v}}).Err)
			eu.produce(orders, 0, "other")
			want = append(want, v)
		}
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, want)
		here, there := us.read(orders, 0), eu.read(orders, 0)
		if !slices.Equal(timesOf(us, here), timesOf(us, there)) {
			t.Errorf("times changed on their way: %v, %v", timesOf(us, here), timesOf(us, there))
		}
	})
}

// TestH2H3BytesCrossUnchanged: what a producer compressed, or encrypted with keys
// that no region has, is stored everywhere bit by bit.
func TestH2H3BytesCrossUnchanged(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		sent := batch{compressed: true, time: time.Now(), values: []string{"\x00\xff secret", strings.Repeat("z", 10_000)}}
		raw, _, err := sent.encode()
		ms.must(err)
		ms.must(us.append(orders, 0, sent).Err)
		ms.untilCopied(us, eu, orders, 0)
		const patched = 16 // base offset, length, leader epoch
		for _, n := range []*node{us, eu} {
			if got := n.read(orders, 0); len(got) != 1 || !bytes.Equal(got[0].Batch[patched:], raw[patched:]) {
				t.Errorf("%s stores other bytes than were sent", n.name)
			}
		}
	})
}

// TestG98G100LagIsTrue: zero when all is confirmed; else counted, and as old as
// the oldest record's stay in the log, whatever the producer's clock says.
func TestG98G100LagIsTrue(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		idle := func() bool {
			f := us.flow(eu, orders, 0)
			return f.State == replicator.SessionIdle && f.Lag.Known && f.Lag.Records == 0 && f.Lag.Bytes == 0 && f.Lag.Age == 0
		}
		us.produce(orders, 0, "first")
		ms.until("idle without lag", idle)
		ms.path(us, eu, relay.Settings{Cut: true})
		for _, skew := range []time.Duration{-time.Hour, time.Hour} {
			ms.must(us.append(orders, 0, batch{time: time.Now().Add(skew), values: []string{"x"}}).Err)
		}
		ms.pass(10 * time.Second)
		if f := us.flow(eu, orders, 0); f.Lag.Records != 2 || f.Lag.Bytes == 0 || f.State != replicator.SessionDisconnected ||
			f.Lag.Age < 9*time.Second || f.Lag.Age > 11*time.Second {
			t.Errorf("after 10 s: %+v", f)
		}
		ms.path(us, eu, near)
		ms.until("idle without lag", idle)
	})
}

// TestG89SameProducerIDInTwoRegions: ids of regions differ, and if a client forced
// the same one on two regions, the copy would not touch the tables of its
// destination.
func TestG89SameProducerIDInTwoRegions(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		seen := map[int64]bool{}
		for _, n := range []*node{us, eu, us, eu} {
			id, err := n.region().ProducerID(ms.ctx)
			ms.must(err)
			if seen[id] || id <= 0 || rhumb.RegionNumber(id>>48) != n.running.Self().Number {
				t.Errorf("%s gives producer id %#x", n.name, id)
			}
			seen[id] = true
		}
		b := func(v string, seq int32) batch { return batch{producer: 7, sequence: seq, values: []string{v}} }
		for i := range int32(3) {
			ms.must(us.append(orders, 0, b("us", i)).Err)
		}
		ms.untilCopied(us, eu, orders, 0)
		first := eu.append(orders, 0, b("eu", 0))
		again := eu.append(orders, 0, b("eu", 0))
		if first.Err != nil || first.Duplicate || again.Err != nil || !again.Duplicate || again.Base != first.Base {
			t.Errorf("%+v, then %+v", first, again)
		}
		ms.untilCopied(eu, us, orders, 0)
		ms.same(us, eu, []string{"us", "us", "us"})
		ms.same(eu, us, []string{"eu"})
	})
}
