package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// lonelyTopics makes so many topics in us, and waits until eu has them.
func (ms *mesh) lonelyTopics(n int) []rhumb.Topic {
	ms.t.Helper()
	return ms.named("lonely", n)
}

// named does so with topics whose names begin with a word.
func (ms *mesh) named(word string, n int) []rhumb.Topic {
	ms.t.Helper()
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	topics := make([]rhumb.Topic, n)
	for i := range topics {
		topics[i] = rhumb.Topic{Tenant: "public", Namespace: "default", Name: rhumb.TopicName(fmt.Sprintf("%s-%d", word, i))}
		us.create(topics[i], 1)
	}
	ms.until("eu has the topics", 20*time.Second, func() bool {
		for _, t := range topics {
			if _, ok := eu.region.Topic(t); !ok {
				return false
			}
		}
		return true
	})
	return topics
}

// untilLevel waits until all of us is in eu, once each, and us knows that.
func (ms *mesh) untilLevel(topics []rhumb.Topic) {
	ms.t.Helper()
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	ms.until("all is copied", 2*time.Minute, func() bool {
		for _, t := range topics {
			if !copied(us, eu, t, 0) {
				return false
			}
		}
		return true
	})
	ms.until("us knows that", 30*time.Second, func() bool {
		for _, p := range us.link("eu").Partitions {
			if !p.Lag.Known || p.Lag.Records != 0 {
				return false
			}
		}
		return us.status().SendBytes == 0
	})
	c := us.manager.link("eu").connection()
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	if n := len(c.lanes.alone.batches) + len(c.lanes.alone.ended); n > 0 || c.lanes.alone.aged != 0 {
		ms.t.Errorf("%d batches are still under way alone, %d bytes of them are not new", n, c.lanes.alone.aged)
	}
}

// with changes how a node's region behaves.
func (n *node) with(change func(*fakeRegion)) {
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	change(n.region)
}

// wentAlone is how many batches of us went to eu without a session that asked.
func (ms *mesh) wentAlone() uint64 { return ms.nodes["us"].manager.link("eu").counters.alone.Load() }

// TestBatchesGoAlone: the first batch of each of many topics costs no session, the start of
// its edge is fixed all the same, and what comes next is carried as ever.
func TestBatchesGoAlone(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		topics := ms.lonelyTopics(300)
		produce := func(to []rhumb.Topic) {
			for _, x := range to {
				us.produce(x, 0, 2, 100)
			}
			ms.untilLevel(to)
		}
		produce(topics[:50]) // the first have sessions, which open the lanes
		before := ms.wentAlone()
		produce(topics[50:])
		if n := ms.wentAlone() - before; n < 200 {
			ms.t.Errorf("of 250 batches %d went alone", n)
		}
		if eu.region.repeats > 0 {
			ms.t.Errorf("%d batches came twice", eu.region.repeats)
		}
		for _, x := range topics {
			us.region.edit(x, 0, func(l *fakeLog) {
				if at, ok := l.starts[eu.self.Number]; !ok || at != 0 {
					ms.t.Errorf("the edge of %s starts at %d, %v", x.Name, at, ok)
				}
			})
			us.produce(x, 0, 1, 100)
			us.produce(x, 0, 1, 100)
		}
		ms.untilLevel(topics)
	})
}

// TestWhoGoesAlone: nothing does to a peer of an older version, nor over a long line, nor
// where a rate is set, nor what an operator wants skipped.
func TestWhoGoesAlone(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, _ *node) {
		ms.pass(5 * time.Second) // the session that asked has ended
		l := us.manager.link("eu")
		var f *flow
		for _, g := range l.all() {
			f = g
		}
		knows := &conn{features: featureAlone}
		if !f.mayGoAlone(knows) {
			ms.t.Fatal("nothing is there yet, and a first batch may not go alone")
		}
		if f.mayGoAlone(&conn{features: ^featureAlone}) || f.mayGoAlone(&conn{features: featureAlone, far: true}) {
			ms.t.Error("a batch goes alone to a peer that does not know that, or over a long line")
		}
		f.limiter().set(1 << 20)
		if f.mayGoAlone(knows) {
			ms.t.Error("a batch goes alone past its edge's rate limit")
		}
		f.limiter().set(0)
		f.order = &skipOrder{}
		if f.mayGoAlone(knows) {
			ms.t.Error("a batch goes alone that an operator wants skipped")
		}
		f.order = nil
		us.produce(orders, 0, 1, aloneMost)
		ms.untilCopied(us, ms.nodes["eu"], 0)
		if n := ms.wentAlone(); n > 0 {
			ms.t.Errorf("%d large batches went alone", n)
		}
	})
}

// TestI3BatchesThatGoAloneAreCut: lines are cut, the destination is killed, its storage
// fails, and the source is started anew while batches are under way alone: each arrives once.
func TestI3BatchesThatGoAloneAreCut(t *testing.T) {
	for name, fault := range map[string]func(ms *mesh, us, eu *node){
		"the line is cut": func(ms *mesh, _, _ *node) {
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.pass(20 * time.Second)
			ms.cut("us", "eu", short)
		},
		"the destination is killed": func(ms *mesh, _, eu *node) {
			eu.kill()
			ms.pass(3 * time.Second)
			eu.start()
		},
		"the source is killed": func(ms *mesh, us, _ *node) {
			us.kill()
			us.start()
		},
		"the destination answers nobody": func(ms *mesh, _, eu *node) {
			eu.with(func(r *fakeRegion) { r.mute = true })
			ms.pass(40 * time.Second)
			eu.with(func(r *fakeRegion) { r.mute = false })
		},
		"the destination fails": func(ms *mesh, _, eu *node) {
			eu.with(func(r *fakeRegion) {
				r.failAppend = func(rhumb.PartitionRef, *codec.Envelope) error {
					return rhumb.Errorf(rhumb.KindUnavailable, "no leader")
				}
			})
			ms.pass(time.Second)
			eu.with(func(r *fakeRegion) { r.failAppend = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, short, 1, func(ms *mesh, us, eu *node) {
				topics := ms.lonelyTopics(100)
				eu.with(func(r *fakeRegion) { r.delay = 3 * time.Millisecond })
				for i, x := range topics {
					if us.produce(x, 0, 2, 100); i == len(topics)/2 {
						ms.pass(6 * time.Millisecond) // some are on the line, some with the region
					}
				}
				fault(ms, us, eu)
				for _, x := range topics[:50] {
					us.produce(x, 0, 1, 100)
				}
				ms.untilLevel(topics)
			})
		})
	}
}

// TestBatchIsAloneWhileItsEdgeIsPaused: a flow that is paused while its batch is alone under way
// shows that it is paused, and goes on from there.
func TestBatchIsAloneWhileItsEdgeIsPaused(t *testing.T) {
	pair(t, relay.Settings{Delay: 200 * time.Millisecond}, 1, func(ms *mesh, us, eu *node) {
		space := rhumb.Space{Tenant: "public", Namespace: "default"}
		topics := ms.lonelyTopics(20)
		for _, x := range topics {
			us.produce(x, 0, 1, 100)
		}
		ms.pass(50 * time.Millisecond)
		if err := us.manager.Pause(ms.t.Context(), "eu", space, "ann"); err != nil {
			ms.t.Fatal(err)
		}
		for _, x := range topics {
			us.produce(x, 0, 1, 100)
		}
		ms.until("all are paused", 10*time.Second, func() bool {
			for _, p := range us.link("eu").Partitions {
				if p.State != SessionPaused {
					return false
				}
			}
			return true
		})
		ms.pass(5 * time.Second)
		for _, x := range topics {
			if n := len(eu.region.own(x, 0, us.self.Number)); n > 1 {
				ms.t.Errorf("%s: %d batches crossed a paused edge", x.Name, n)
			}
		}
		if err := us.manager.Resume(ms.t.Context(), "eu", space); err != nil {
			ms.t.Fatal(err)
		}
		ms.untilLevel(topics)
	})
}
