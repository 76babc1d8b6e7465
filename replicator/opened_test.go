package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestPausesKeepNoRightToOpen: a flow that is paused while it rests between two tries
// gives back the right to open a session, or a few hundred of them would close the link.
func TestPausesKeepNoRightToOpen(t *testing.T) {
	pair(t, short, 4, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		defer eu.refuseAt(1)()
		us.produce(orders, 0, 1, 100)
		ms.until("it is refused", time.Minute, func() bool { return us.flow("eu").State == SessionRefused })
		gate := us.conn("eu").opening
		for i := range 5 {
			if err := us.manager.Pause(ms.net.ctx, "eu", rhumb.Space{}, "x"); err != nil {
				t.Fatal(err)
			}
			ms.pass(time.Second)
			if n := gate.inUse(); n != 0 {
				t.Fatalf("%d rights to open are in use after %d pauses, by nobody", n, i+1)
			}
			if err := us.manager.Resume(ms.net.ctx, "eu", rhumb.Space{}); err != nil {
				t.Fatal(err)
			}
			ms.pass(20 * time.Second)
		}
	})
}
