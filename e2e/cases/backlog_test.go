package cases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// brief is the topic of these stories: retention wants its records after a minute.
var brief = map[string]string{"retention.ms": "60000"}

// backlog sets how long records are kept for regions that lack them.
func (ms *mesh) backlog(hold time.Duration, at configstore.AtLimit) {
	ms.Helper()
	p := configstore.Period(hold)
	_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Backlog = &configstore.Backlog{Hold: &p, AtLimit: at}
		return nil
	})
	ms.must(err)
}

// away runs a story in which eu lacks what us has published since its line was cut.
func away(t *testing.T, hold time.Duration, at configstore.AtLimit, story func(ms *mesh, us, eu *node)) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.backlog(hold, at)
		us.create(orders, 1, brief)
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "before")
		ms.untilCopied(us, eu, orders, 0)
		ms.pass(time.Second) // us has heard of it
		ms.path(us, eu, relay.Settings{Cut: true})
		us.produce(orders, 0, "a1", "a2")
		story(ms, us, eu)
	})
}

func (n *node) logStart() rhumb.Offset {
	st, _ := n.region().State(n.partition(orders, 0).Ref)
	return st.LogStart
}

// problem gives what the region's health says of such a state.
func (n *node) problem(part, state string) string {
	for _, p := range n.running.Problems() {
		if p.Part == part && p.State == state {
			return p.Message
		}
	}
	return ""
}

// TestG08HeldForARegionThatIsAway: retention leaves what another region lacks, over
// a restart too, and drops it once that region has it. What it has goes at once.
func TestG08HeldForARegionThatIsAway(t *testing.T) {
	away(t, time.Hour, configstore.AtLimitGap, func(ms *mesh, us, eu *node) {
		ms.pass(5 * time.Minute)
		if at := us.logStart(); at != 1 {
			t.Fatalf("log start %d, want 1: eu has what lies before, and lacks the rest", at)
		}
		if b := us.region().Backlog(); b.Partitions != 1 || b.Bytes <= 0 || b.Limit <= 0 || b.Dropped != 0 {
			t.Errorf("backlog %+v", b)
		}
		us.kill()
		us.start()
		ms.pass(5 * time.Minute)
		if at := us.logStart(); at != 1 {
			t.Fatalf("log start %d after a restart", at)
		}
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		ms.until("nothing held", func() bool { return us.logStart() == 3 })
		if gaps := eu.region().Gaps(eu.partition(orders, 0).Ref); len(gaps) > 0 {
			t.Errorf("gaps %+v", gaps)
		}
		if st, _ := eu.region().State(eu.partition(orders, 0).Ref); st.End != 3 {
			t.Errorf("eu has stored %d records, want 3", st.End) // its own retention drops them soon
		}
	})
}

// TestG13BacklogLimitIsAGapWithItsReason: after the hold time the oldest go, as a
// gap that says so, and loudly; what is younger stays.
func TestG13BacklogLimitIsAGapWithItsReason(t *testing.T) {
	away(t, 10*time.Minute, configstore.AtLimitGap, func(ms *mesh, us, eu *node) {
		ms.pass(9 * time.Minute)
		us.produce(orders, 0, "young")
		if at := us.logStart(); at != 1 {
			t.Fatalf("log start %d before the time is up", at)
		}
		ms.pass(4 * time.Minute)
		if at := us.logStart(); at != 3 {
			t.Fatalf("log start %d, want 3: a1 and a2 had their time", at)
		}
		b := us.region().Backlog()
		if b.Dropped != 2 || b.Last == nil || b.Last.From != 1 || b.Last.To != 2 || !slices.Equal(b.Last.Missing, []rhumb.RegionName{"eu"}) {
			t.Errorf("backlog %+v, last %+v", b, b.Last)
		}
		if text := us.problem("backlog", "gap"); !strings.Contains(text, "eu") {
			t.Errorf("health says %q", text)
		}
		told := us.problem("backlog", "gap")
		us.kill()
		us.start()
		if text := us.problem("backlog", "gap"); text != told || !strings.HasPrefix(text, "2 records were dropped") {
			t.Errorf("after a restart health says %q, before it %q", text, told)
		}
		if b := us.region().Backlog(); b.Dropped != 0 {
			t.Errorf("a process that dropped nothing counts %d", b.Dropped)
		}
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 1 || gaps[0].From != 1 || gaps[0].To != 2 || gaps[0].Reason != rhumb.ReasonBacklog {
			t.Errorf("gaps %+v", gaps)
		}
		if got := eu.from(us, orders, 0); !slices.Contains(got, "young") || slices.Contains(got, "a1") {
			t.Errorf("eu has %q", got)
		}
	})
}

// TestG13RestartsDoNotProlongTheHold: the hold time counts from when records were
// appended, however often the region restarts while the line is down; what became too
// old while it was down itself still has its chance after the start.
func TestG13RestartsDoNotProlongTheHold(t *testing.T) {
	away(t, 30*time.Minute, configstore.AtLimitGap, func(ms *mesh, us, eu *node) {
		for range 2 {
			ms.pass(12 * time.Minute)
			us.kill()
			us.start()
		}
		us.produce(orders, 0, "young")
		if at := us.logStart(); at > 1 {
			t.Fatalf("log start %d before the time is up", at)
		}
		ms.pass(9 * time.Minute) // 33 since they were appended, 9 since the start
		if at := us.logStart(); at > 1 {
			t.Fatalf("log start %d, nine minutes after the start", at)
		}
		ms.pass(3 * time.Minute)
		if at := us.logStart(); at != 3 {
			t.Fatalf("log start %d, want 3: a1 and a2 had their time", at)
		}
		us.kill()
		ms.pass(2 * time.Hour)
		us.start()
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 1 || gaps[0].From != 1 || gaps[0].To != 2 || gaps[0].Reason != rhumb.ReasonBacklog {
			t.Errorf("gaps %+v: only what had its time is one", gaps)
		}
	})
}

// TestG31ProducersGoOnOnceTheBacklogIsGone: a namespace that holds refuses producers
// at the limit, with a reason, and takes them again soon after the destination has
// confirmed. Nothing is lost.
func TestG31ProducersGoOnOnceTheBacklogIsGone(t *testing.T) {
	away(t, 10*time.Minute, configstore.AtLimitHold, func(ms *mesh, us, eu *node) {
		ms.pass(15 * time.Minute)
		res := us.append(orders, 0, batch{values: []string{"refused"}})
		if rhumb.KindOf(res.Err) != rhumb.KindNoSpace || !strings.Contains(res.Err.Error(), "eu") {
			t.Fatalf("a producer is told %v", res.Err)
		}
		if us.problem("backlog", "hold") == "" || us.region().Backlog().Refusing != 1 {
			t.Errorf("backlog %+v", us.region().Backlog())
		}
		us.kill() // what is refused is found again, once the hold time has passed anew
		us.start()
		if at := us.logStart(); at != 1 {
			t.Fatalf("log start %d", at)
		}
		ms.pass(15 * time.Minute)
		if res := us.append(orders, 0, batch{values: []string{"refused"}}); rhumb.KindOf(res.Err) != rhumb.KindNoSpace {
			t.Fatalf("after a restart: %v", res.Err)
		}
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		ms.until("producers go on", func() bool { return us.append(orders, 0, batch{values: []string{"on"}}).Err == nil })
		ms.untilCopied(us, eu, orders, 0)
		if gaps := eu.region().Gaps(eu.partition(orders, 0).Ref); len(gaps) > 0 {
			t.Errorf("gaps %+v", gaps)
		}
	})
}

// TestG13DiskShareLimitsTheBacklog: what is kept for others takes no more of the disk
// than it may, however short it has been kept.
func TestG13DiskShareLimitsTheBacklog(t *testing.T) {
	away(t, time.Hour, configstore.AtLimitGap, func(ms *mesh, us, eu *node) {
		us.fs.SetUsage(func() (vfs.Usage, error) { return vfs.Usage{}, errors.New("the disk does not say") })
		ms.pass(5 * time.Minute)
		if b := us.region().Backlog(); b.Dropped != 0 || us.logStart() != 1 {
			t.Fatalf("a disk that does not answer: backlog %+v", b)
		}
		us.fs.SetUsage(func() (vfs.Usage, error) { return vfs.Usage{Total: 40_000, Free: 30_000}, nil })
		for range 20 {
			us.produce(orders, 0, strings.Repeat("x", 1000))
		}
		ms.pass(5 * time.Minute)
		b := us.region().Backlog()
		if b.Limit != 8_000 || b.Bytes > b.Limit || b.Bytes < b.Limit/2 || b.Dropped == 0 {
			t.Errorf("backlog %+v, last %+v", b, b.Last)
		}
		us.fs.SetUsage(nil)
		ms.path(us, eu, near)
		ms.untilCopied(us, eu, orders, 0)
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 1 || gaps[0].Reason != rhumb.ReasonBacklog || uint64(gaps[0].To-gaps[0].From+1) != b.Dropped {
			t.Errorf("gaps %+v, dropped %d", gaps, b.Dropped)
		}
	})
}

// TestG50WhoIsNotOwedHoldsNothing: a region to which no edge leads any more holds no
// record back; nor does one that is owed hold DeleteRecords.
func TestG50WhoIsNotOwedHoldsNothing(t *testing.T) {
	t.Run("edge removed", func(t *testing.T) {
		away(t, time.Hour, configstore.AtLimitHold, func(ms *mesh, us, _ *node) {
			ms.pass(3 * time.Minute)
			if at := us.logStart(); at != 1 {
				t.Fatalf("log start %d", at)
			}
			ms.flowBetween([]rhumb.RegionName{"us"})
			ms.until("retention goes on", func() bool { ms.pass(10 * time.Second); return us.logStart() == 3 })
		})
	})
	t.Run("deleted by hand", func(t *testing.T) {
		away(t, time.Hour, configstore.AtLimitHold, func(ms *mesh, us, eu *node) {
			if at, err := us.region().DeleteRecords(context.Background(), us.partition(orders, 0).Ref, 2); err != nil || at != 2 {
				t.Fatalf("%d, %v", at, err)
			}
		})
	})
}

// TestG08NeverConnectedIsOwedEverything: a region that has never been there is kept
// what its edge begins with.
func TestG08NeverConnectedIsOwedEverything(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		eu.kill()
		ms.backlog(time.Hour, configstore.AtLimitGap)
		us.create(orders, 1, brief)
		us.produce(orders, 0, "first")
		ms.pass(10 * time.Minute)
		us.kill()
		us.start()
		ms.pass(10 * time.Minute)
		if at := us.logStart(); at != 0 {
			t.Fatalf("log start %d", at)
		}
		eu.start()
		ms.everywhere(orders, 1)
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, []string{"first"})
	})
}

// TestG08RelayHoldsWhatItForwards: a region in the middle of a chain keeps what it has
// to hand on, which its own retention would drop, for the next one that is away.
func TestG08RelayHoldsWhatItForwards(t *testing.T) {
	t.Parallel()
	names := []rhumb.RegionName{"us", "eu", "ap"}
	run(t, names, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
			n.Topology = &configstore.Topology{Chain: names}
			return nil
		})
		ms.must(err)
		ms.backlog(time.Hour, configstore.AtLimitGap)
		us.create(orders, 1, brief)
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "before")
		ms.until("all the way", func() bool { return ms.copied(us, ap, orders, 0) })
		ms.pass(time.Second) // eu has heard of it
		ms.path(eu, ap, relay.Settings{Cut: true})
		us.produce(orders, 0, "a1", "a2")
		ms.untilCopied(us, eu, orders, 0)
		ms.pass(10 * time.Minute)
		if at := us.logStart(); at != 3 {
			t.Errorf("us keeps from %d on, want 3: eu has confirmed everything", at)
		}
		if at := eu.logStart(); at != 1 {
			for _, l := range eu.running.Links().Status().Links {
				t.Logf("%s %s %+v", l.Peer, l.State, l.Partitions)
			}
			t.Fatalf("eu keeps from %d on, want 1: ap lacks the rest; owed %+v", at, eu.running.Links().Owed())
		}
		ms.path(eu, ap, near)
		ms.until("all the way", func() bool { return ms.copied(us, ap, orders, 0) })
		if st, _ := ap.region().State(ap.partition(orders, 0).Ref); st.End != 3 {
			t.Errorf("ap has stored %d records, want 3", st.End)
		}
		if gaps := ap.region().Gaps(ap.partition(orders, 0).Ref); len(gaps) > 0 {
			t.Errorf("gaps %+v", gaps)
		}
	})
}

// TestPausedLinkIsAProblemAfterAWhile: a pause that somebody may have forgotten shows
// in the region's health, after a restart too, and in what retention keeps.
func TestPausedLinkIsAProblemAfterAWhile(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, "before")
		ms.untilCopied(us, eu, orders, 0)
		ms.must(us.running.Links().Pause(ms.ctx, "eu", rhumb.DefaultSpace, "ann"))
		ms.pass(time.Second) // what is under way may still leave
		us.produce(orders, 0, "after")
		ms.pass(time.Minute)
		if ms.copied(us, eu, orders, 0) || us.problem("link eu", "paused") != "" {
			t.Fatalf("copied %v, problem %q, flow %+v, pauses %+v", ms.copied(us, eu, orders, 0), us.problem("link eu", "paused"), us.flow(eu, orders, 0), us.running.Links().Status().Links[0].Pauses)
		}
		us.kill()
		us.start()
		ms.pass(20 * time.Minute)
		if text := us.problem("link eu", "paused"); !strings.Contains(text, "ann") || !strings.Contains(text, "rhumb link resume") {
			t.Fatalf("health says %q", text)
		}
		if ms.copied(us, eu, orders, 0) {
			t.Fatal("it flows")
		}
		ms.must(us.running.Links().Resume(ms.ctx, "eu", rhumb.DefaultSpace))
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, []string{"before", "after"})
	})
}

// TestG17SkippedRecordsAreAGapInRealRegions: an operator skips what a slow edge has not
// carried. The destination keeps it as a gap, with reason and name, over a restart, and
// has everything behind it.
func TestG17SkippedRecordsAreAGapInRealRegions(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, "before")
		ms.untilCopied(us, eu, orders, 0)
		_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
			n.Topology.Rate = "1000"
			return nil
		})
		ms.must(err)
		ms.pass(10 * time.Second)
		for range 10 {
			us.produce(orders, 0, strings.Repeat("x", 5000))
		}
		us.produce(orders, 0, "last")
		ms.pass(5 * time.Second)
		done, err := us.running.Links().Skip(ms.ctx, replicator.SkipRequest{Peer: "eu", Partition: rhumb.Partition{Topic: orders}, To: 11, By: "ann"}, false)
		if err != nil || !done.Done || done.To != 10 {
			t.Fatalf("%+v, %v", done, err)
		}
		ms.untilCopied(us, eu, orders, 0)
		eu.kill()
		eu.start()
		gaps := eu.region().Gaps(eu.partition(orders, 0).Ref)
		if len(gaps) != 1 || gaps[0].To != 10 || gaps[0].From > 5 || gaps[0].Reason != rhumb.ReasonSkipped || gaps[0].By != "ann" {
			t.Errorf("gaps %+v", gaps)
		}
		if got := eu.from(us, orders, 0); got[0] != "before" || got[len(got)-1] != "last" {
			t.Errorf("eu has %d records", len(got))
		}
	})
}
