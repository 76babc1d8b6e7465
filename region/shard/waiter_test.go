package shard

import (
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestGathererNamesWhatChanged: a gatherer tells each partition that signalled once,
// and begins anew.
func TestGathererNamesWhatChanged(t *testing.T) {
	a, b := rhumb.PartitionRef{Shard: 1, ID: 7}, rhumb.PartitionRef{Shard: 2, ID: 7}
	g, views := NewGatherer(), []*view{newView(), newView()}
	for i, ref := range []rhumb.PartitionRef{a, b} {
		views[i].waiters = append(views[i].waiters, waiting{NewWaiter(), ref}, waiting{g, ref}, waiting{NewWaiter(), ref})
	}
	views[0].signal()
	views[0].signal()
	<-g.C
	if got := g.Changed(); !slices.Equal(got, []rhumb.PartitionRef{a}) {
		t.Errorf("%v changed", got)
	}
	views[1].signal()
	views[0].remove(g)
	views[0].remove(g)
	views[0].signal()
	<-g.C
	if got := g.Changed(); !slices.Equal(got, []rhumb.PartitionRef{b}) {
		t.Errorf("%v changed", got)
	}
	if len(views[0].waiters) != 2 || len(g.Changed()) != 0 || len(NewWaiter().Changed()) != 0 {
		t.Error("something is left")
	}
}
