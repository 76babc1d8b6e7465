package replicator

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
)

// TestI8SumsAreWhatPartitionsSay: whatever happens to a link, the sums that a scrape shows
// are those of its partitions, and no lag of zero is shown while something is not confirmed.
func TestI8SumsAreWhatPartitionsSay(t *testing.T) {
	const partitions = 12
	for seed := range uint64(3) {
		pair(t, short, partitions, func(ms *mesh, us, eu *node) {
			random := rand.New(rand.NewPCG(seed, 1))
			lagged := 0
			for range 60 {
				switch random.IntN(10) {
				case 0:
					ms.cut("us", "eu", relay.Settings{Cut: true})
				case 1, 2:
					ms.cut("us", "eu", ms.net.def)
				case 3:
					eu.region.mu.Lock()
					eu.region.delay = time.Duration(random.IntN(3)) * time.Second
					eu.region.mu.Unlock()
				default:
					us.produce(orders, random.IntN(partitions), 1+random.IntN(3), 100)
				}
				ms.pass(time.Duration(random.IntN(1500)) * time.Millisecond)
				synctest.Wait()
				got, all := us.manager.Sums().Links[0], us.link("eu")
				want := SumsOf(all.Partitions)
				if !reflect.DeepEqual(got.Sums, want) || !reflect.DeepEqual(all.Sums, want) {
					t.Fatalf("seed %d: sums %+v, of the partitions %+v", seed, got.Sums, want)
				}
				behind := int64(0)
				for p := range partitions {
					own, there := us.region.own(orders, p, 1), eu.region.own(orders, p, 1)
					behind += int64(len(own) - len(there))
				}
				if behind > 0 {
					lagged++
				}
				if behind > 0 && got.Sums.Lag.Records == 0 && got.Sums.Unknown == 0 {
					t.Fatalf("seed %d: %d batches are not there, and no lag is shown", seed, behind)
				}
			}
			if lagged < 5 {
				t.Errorf("seed %d: something was missing at %d looks only", seed, lagged)
			}
		})
	}
}
