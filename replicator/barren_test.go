package replicator

import (
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestCopiesOpenNoSessionBack: what a link brings to a region that publishes nothing
// there opens no session back for each batch. What that would say is said later, once,
// over a session that ends although copies go on coming; the first own record is not late.
func TestCopiesOpenNoSessionBack(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		ms.pass(5 * time.Second) // the sessions that ask when a link begins end
		open := func() bool { return len(us.link("eu").Inbound) > 0 }
		busy := 0
		for range 100 {
			us.produce(orders, 0, 1, 100)
			ms.pass(500 * time.Millisecond)
			if open() {
				busy++
			}
			if f := eu.flow("us"); f.Lag != (Lag{Known: true}) {
				ms.t.Fatalf("eu, which has nothing of its own, shows %+v", f)
			}
		}
		if busy > 30 {
			ms.t.Errorf("in %d of 100 looks a session back was open", busy)
		}
		mark := func() (at rhumb.Offset) {
			life := eu.region.log(orders, 0).info.Life
			us.region.edit(orders, 0, func(l *fakeLog) { at = l.mark(2, life).Offset })
			return at
		}
		ms.until("eu's watermark is at the end", barrenEvery+10*time.Second, func() bool { return mark() == 99 })
		if ms.pass(10 * time.Second); open() {
			ms.t.Error("the session back stays open")
		}
		us.produce(orders, 0, 1, 100)
		eu.produce(orders, 0, 1, 100)
		ms.until("eu's record is there", time.Second, func() bool { return copied(eu, us, orders, 0) })
	})
}

// TestWhatGrewGoesBeforeWhatAsks: of tens of thousands of flows that ask where they
// stand, those that have something new go first, and the others have their turns.
func TestWhatGrewGoesBeforeWhatAsks(t *testing.T) {
	d := newDue()
	asks, grown := []*flow{{}, {}}, make([]*flow, 20)
	for i := range grown {
		grown[i] = &flow{}
	}
	d.asks, d.grown = slices.Clone(asks), slices.Clone(grown)
	var order []bool
	for f, ask := d.next(); f != nil; f, ask = d.next() {
		order = append(order, ask)
	}
	if len(order) != 22 || slices.Index(order, true) != backlogShare-1 || order[21] {
		t.Errorf("who asks has its turns like this: %v", order)
	}
}
