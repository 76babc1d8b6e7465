package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestI8WhatNobodyToldOfIsALowerBound: a topic that is made while the peer cannot be
// reached leaves the lag of the others to be seen, and after a restart what is
// published from then on counts, among the copies of others' records, too.
func TestI8WhatNobodyToldOfIsALowerBound(t *testing.T) {
	late := rhumb.Topic{Tenant: "public", Namespace: "default", Name: "late"}
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		for _, n := range ms.nodes {
			n.create(orders, 1)
		}
		ms.start()
		us.produce(orders, 0, 5, 100)
		ms.until("all is confirmed", time.Minute, func() bool { return copied(us, eu, orders, 0) && us.flow("eu").Lag == Lag{Known: true} })
		eu.stop()
		us.produce(orders, 0, 3, 100)
		sums := func() Sums { return us.link("eu").Sums }
		before := sums().Lag.Records
		us.create(late, 1)
		ms.until("there is a flow of the topic", time.Minute, func() bool { return len(us.link("eu").Partitions) == 2 })
		us.produce(late, 0, 2, 100)
		if s := sums(); before != 3 || s.Lag.Records != 5 || s.Unknown != 1 {
			t.Fatalf("lag %d, and with the topic %+v", before, s)
		}
		us.stop()
		us.start()
		ms.until("nothing is known", time.Minute, func() bool { s := sums(); return s.Unknown == 2 && s.Lag.Records == 0 })
		ap.produce(orders, 0, 40, 100)
		ms.until("copies are there", time.Minute, func() bool { return copied(ap, us, orders, 0) })
		us.produce(orders, 0, 4, 100)
		ms.pass(7 * time.Second)
		if s := sums(); s.Lag.Records != 4 || s.Unknown != 2 || s.Lag.Age < 7*time.Second || s.Lag.Age > 8*time.Second || s.Lag.Bytes == 0 {
			t.Fatalf("after the restart: %+v", s)
		}
		if s := sums(); s.Lag.Records != 4 {
			t.Fatalf("counted again: %+v", s)
		}
		eu.start()
		ms.until("all is known", time.Minute, func() bool { s := sums(); return s.Unknown == 0 && s.Lag.Records == 0 })
	})
}
