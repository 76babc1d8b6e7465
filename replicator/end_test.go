package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestI8EndIsNotBelowWhatIsConfirmed: where copies lie behind the last own record, the
// destination confirms the offsets that they have, too. What a flow has to bring ends
// there then, and not before what is confirmed.
func TestI8EndIsNotBelowWhatIsConfirmed(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100) // 0 to 2
		ms.untilCopied(us, eu, 0)
		var f PartitionStatus
		shown := func() bool {
			if f = us.flow("eu"); f.End < f.Confirmed {
				ms.t.Fatalf("end %d, confirmed %d", f.End, f.Confirmed)
			}
			return f.State == SessionIdle && f.Lag.Records == 0 && f.Confirmed == f.End
		}
		for i := range 5 {
			eu.produce(orders, 0, 2, 100)
			ms.untilCopied(eu, us, 0)
			ms.until("us owes nothing", 2*time.Minute, func() bool { return shown() && f.Confirmed > 2+rhumb.Offset(i) })
		}
		us.produce(orders, 0, 1, 100)
		ms.until("the next own record is there", 2*time.Minute, func() bool { return shown() && f.End == 13 })
	})
}
