package cases

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestH7AHundredTimes: a topic is deleted in one region and made again in another
// one at once, a hundred times, while every region writes to what it has, lines are
// cut and regions lose power. In the end there is one topic, of one deletion count
// and as many partitions everywhere, with records of that count alone.
func TestH7AHundredTimes(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		rng := rand.New(rand.NewPCG(7, 100))
		ms.must(nodes[0].make(orders, 1, nil))
		ms.everywhere(orders, 1)
		for round := range 100 {
			a, b := nodes[rng.IntN(3)], nodes[rng.IntN(3)]
			switch rng.IntN(8) {
			case 0:
				ms.cut(a, true)
			case 1, 2:
				for _, n := range nodes {
					ms.cut(n, false)
				}
			case 3:
				a.kill()
				a.start()
			}
			if err := a.remove(orders, "mesh"); err != nil && rhumb.KindOf(err) != rhumb.KindNotFound {
				t.Fatal(err)
			}
			// Another region's topic of this name may have come before.
			if err := b.make(orders, int32(1+rng.IntN(3)), nil); err != nil && rhumb.KindOf(err) != rhumb.KindExists {
				t.Fatal(err)
			}
			for _, n := range nodes {
				if info, ok := n.region().Topic(orders); ok && info.Ready() {
					n.append(orders, 0, batch{values: []string{fmt.Sprintf("%d/%d", info.Deletions, round)}})
				}
			}
			ms.pass(time.Duration(rng.IntN(500)) * time.Millisecond)
		}
		for _, n := range nodes {
			ms.cut(n, false)
		}
		ms.until("one topic everywhere", func() bool {
			x, y, z := nodes[0].infoOf(orders), nodes[1].infoOf(orders), nodes[2].infoOf(orders)
			return x.Deletions == y.Deletions && y.Deletions == z.Deletions && x.Ready() && y.Ready() && z.Ready() &&
				len(x.Partitions) > 0 && len(x.Partitions) == len(y.Partitions) && len(y.Partitions) == len(z.Partitions)
		})
		count := nodes[0].infoOf(orders).Deletions
		if count < 50 {
			t.Errorf("it was deleted only %d times", count)
		}
		for _, a := range nodes {
			for _, b := range nodes {
				if a == b {
					continue
				}
				ms.untilCopied(a, b, orders, 0)
				for _, value := range b.from(a, orders, 0) {
					if !strings.HasPrefix(value, fmt.Sprintf("%d/", count)) {
						t.Errorf("%s has %q of %s, the topic is of count %d", b.name, value, a.name, count)
					}
				}
			}
		}
	})
}
