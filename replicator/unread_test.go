package replicator

import (
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// spoil makes the batch at an offset of orders one that cannot be read.
func (n *node) spoil(at rhumb.Offset) {
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	n.region.log(orders, 0).bad = map[rhumb.Offset]bool{at: true}
}

// TestG17SkipWhatCannotBeRead: a batch that the source cannot read any more stops its
// partition there and not before, says why, and can be skipped like one that the
// destination will not have: also if the session that stands has brought nothing yet.
func TestG17SkipWhatCannotBeRead(t *testing.T) {
	for _, first := range []rhumb.Offset{0, 3} {
		pair(t, short, 1, func(ms *mesh, us, eu *node) {
			if first == 3 {
				us.produce(orders, 0, 3, 100)
				ms.untilCopied(us, eu, 0)
			}
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.until("unlinked", 20*time.Second, func() bool { return !ms.linked("us", "eu") })
			us.produce(orders, 0, 3, 100)
			us.produce(orders, 0, 2, 100) // bad
			us.produce(orders, 0, 2, 100)
			bad := first + 3
			us.spoil(bad)
			ms.cut("us", "eu", short)
			ms.until("what is before it is there", 30*time.Second, func() bool { return us.flow("eu").Confirmed == bad-1 })
			for range 5 { // it is tried again and again
				ms.until("it says why", 10*time.Second, func() bool {
					f := us.flow("eu")
					return f.State == SessionStalled && strings.Contains(f.LastError, "CRC does not match")
				})
				if f := us.flow("eu"); f.Confirmed != bad-1 {
					ms.t.Errorf("flow %+v", f)
				}
				ms.pass(7 * time.Second)
			}
			if age := us.flow("eu").Lag.Age; age < 20*time.Second {
				ms.t.Errorf("it stands for half a minute, and its oldest record is %s old", age)
			}
			// Another session, which brings nothing: the batch is the first thing that it reads.
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.until("unlinked again", 20*time.Second, func() bool { return !ms.linked("us", "eu") })
			ms.cut("us", "eu", short)
			ms.until("linked", 20*time.Second, func() bool { return ms.linked("us", "eu") && us.flow("eu").State == SessionStalled })
			if r, err := us.skipTo("eu", "", bad+2, false); err != nil || !r.Done || r.From != bad || r.To != bad+1 {
				ms.t.Fatalf("skip: %+v, %v", r, err)
			}
			ms.until("the rest comes", 10*time.Second, func() bool { return us.flow("eu").Confirmed == bad+3 })
			if gaps := eu.gapsOf(); len(gaps) != 1 || gaps[0].To != bad+1 || gaps[0].Reason != rhumb.ReasonSkipped {
				ms.t.Errorf("gaps %+v", gaps)
			}
		})
	}
}

// TestUnreadBatchThatIsThereAlready: what the destination has need not be read again,
// whatever became of it at the source.
func TestUnreadBatchThatIsThereAlready(t *testing.T) {
	for _, bad := range []rhumb.Offset{0, 3, 6} {
		pair(t, short, 1, func(ms *mesh, us, eu *node) {
			for range 3 {
				us.produce(orders, 0, 3, 100)
			}
			ms.untilCopied(us, eu, 0)
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.until("unlinked", 20*time.Second, func() bool { return !ms.linked("us", "eu") })
			us.spoil(bad)
			us.produce(orders, 0, 3, 100)
			ms.cut("us", "eu", short)
			ms.until("the rest comes", time.Minute, func() bool { return us.flow("eu").Confirmed == 11 })
		})
	}
}
