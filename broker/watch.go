package broker

import (
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Watch tells which of many partitions changed, for who reads them again and again: a
// look at each of tens of thousands for a few that have something costs more than
// those few. Its methods may be called at the same time.
type Watch struct {
	b *Broker
	w *Waiter
}

// NewWatch makes a watch of nothing.
func (b *Broker) NewWatch() *Watch { return &Watch{b, region.NewGatherer()} }

// Add watches the partition of an item, and tells by what name Changed will give it;
// false if there is none. What changed before is not told: look at it after this call.
func (w *Watch) Add(item *FetchItem) (rhumb.PartitionRef, bool) {
	if item.Topic == nil {
		return rhumb.PartitionRef{}, false
	}
	info, err := partitionOf(item.Topic, item.Partition)
	if err != nil {
		return rhumb.PartitionRef{}, false
	}
	return info.Ref, w.b.region.AddWaiter(info.Ref, w.w)
}

// Remove takes back what Add did.
func (w *Watch) Remove(ref rhumb.PartitionRef) { w.b.region.RemoveWaiter(ref, w.w) }

// C has a token when something changed since Changed was called last.
func (w *Watch) C() <-chan struct{} { return w.w.C }

// Changed gives the partitions that grew, lost records or were deleted since the last
// call.
func (w *Watch) Changed() []rhumb.PartitionRef { return w.w.Changed() }
