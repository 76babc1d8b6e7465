package cases

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

var three = []rhumb.RegionName{"us", "eu", "ap"}

// cut cuts a region off from all others, or joins it again.
func (ms *mesh) cut(n *node, cut bool) {
	for _, o := range ms.nodes {
		if o != n {
			ms.path(n, o, relay.Settings{Delay: near.Delay, Cut: cut})
		}
	}
}

// make makes a topic as a client of the region does.
func (n *node) make(t rhumb.Topic, partitions int32, configs map[string]string) error {
	_, err := n.running.Broker().CreateTopic(n.mesh.ctx, broker.TopicSpec{Topic: t, Partitions: partitions, Configs: configs})
	return err
}

// remove deletes a topic as a client of the region does.
func (n *node) remove(t rhumb.Topic, scope configstore.Scope) error {
	info, ok := n.region().Topic(t)
	if !ok {
		return rhumb.Errorf(rhumb.KindNotFound, "no topic")
	}
	return n.running.Broker().DeleteTopicIn(n.mesh.ctx, info, scope, false)
}

func (n *node) set(t rhumb.Topic, name, value string) error {
	return n.running.Broker().AlterTopic(n.mesh.ctx, t, []broker.ConfigChange{{Name: name, Value: value}}, false)
}

func (n *node) configs(t rhumb.Topic) map[string]string {
	info, _ := n.region().Topic(t)
	return info.Configs
}

// commit stores a group's position in partition 0.
func (n *node) commit(key region.GroupKey, t rhumb.Topic, at rhumb.Offset) error {
	done := make(chan error, 1)
	n.region().StoreOffsets(key, []region.OffsetCommit{{TopicID: n.infoOf(t).ID, Topic: t, Offset: at, LeaderEpoch: -1, At: time.Now().UnixMilli()}},
		func(err error) { done <- err })
	return <-done
}

// configured waits until a topic has these settings in all running regions.
func (ms *mesh) configured(t rhumb.Topic, want map[string]string) {
	ms.Helper()
	for _, n := range ms.nodes {
		ms.until(fmt.Sprintf("settings in %s: %v", n.name, want), func() bool {
			return n.running == nil || n.has(t, len(n.infoOf(t).Partitions)) && maps.Equal(n.configs(t), want)
		})
	}
}

func (n *node) infoOf(t rhumb.Topic) region.TopicInfo {
	info, _ := n.region().Topic(t)
	return info
}

// gone waits until no running region has a topic.
func (ms *mesh) gone(t rhumb.Topic) {
	ms.Helper()
	for _, n := range ms.nodes {
		ms.until("no topic in "+string(n.name), func() bool { return n.running == nil || len(n.infoOf(t).Partitions) == 0 })
	}
}

// TestG77G82CreatedWithoutTheStore: a topic is made while the configuration store is
// down and one region is switched off. It is in all regions all the same, with its
// partitions, before any record.
func TestG77G82CreatedWithoutTheStore(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, ap := nodes[0], nodes[2]
		ap.kill()
		ms.store.SetDown(true)
		ms.pass(10 * time.Second)
		ms.must(us.make(orders, 5, nil))
		ms.everywhere(orders, 5)
		ap.start()
		ms.everywhere(orders, 5)
		us.produce(orders, 4, "one")
		ms.untilCopied(us, ap, orders, 4)
	})
}

// TestSettingsTravel: settings that are changed in one region are the same in all
// within seconds; two regions that change different ones at the same time lose
// neither; a region that was away has them when it is back.
func TestSettingsTravel(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		ms.must(us.make(orders, 2, map[string]string{"retention.ms": "1000000"}))
		ms.configured(orders, map[string]string{"retention.ms": "1000000"})
		ap.kill()
		done := make(chan error, 2)
		go func() { done <- us.set(orders, "retention.bytes", "5000") }()
		go func() { done <- eu.set(orders, "cleanup.policy", "compact") }()
		ms.must(<-done)
		ms.must(<-done)
		want := map[string]string{"retention.ms": "1000000", "retention.bytes": "5000", "cleanup.policy": "compact"}
		ms.configured(orders, want)
		ap.start()
		ms.configured(orders, want)
		ms.must(ap.running.Broker().ReplaceTopic(ms.ctx, orders, nil, false))
		ms.configured(orders, map[string]string{})
		us.kill()
		us.start()
		ms.pass(20 * time.Second) // settings that nobody has any more come back from nowhere
		ms.configured(orders, map[string]string{})
	})
}

// TestSettingsWithoutTheStore: a region that does not reach the store refuses to
// change the settings of a topic of several regions, as something to be tried again,
// and changes nothing.
func TestSettingsWithoutTheStore(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.must(us.make(orders, 1, nil))
		ms.everywhere(orders, 1)
		us.away.Store(true)
		if err := us.set(orders, "retention.ms", "7"); rhumb.KindOf(err) != rhumb.KindUnavailable {
			t.Errorf("set without the store: %v", err)
		}
		if got := us.configs(orders); len(got) != 0 {
			t.Errorf("us has %v", got)
		}
		ms.must(eu.set(orders, "retention.ms", "70000000"))
		us.away.Store(false)
		ms.configured(orders, map[string]string{"retention.ms": "70000000"})
	})
}

// TestSettingsOfTwoCreators: two regions that do not reach each other or the store
// make a topic with different settings. When they do they agree on one of both.
func TestSettingsOfTwoCreators(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.path(us, eu, relay.Settings{Cut: true})
		ms.store.SetDown(true)
		ms.pass(10 * time.Second)
		ms.must(us.make(orders, 2, map[string]string{"cleanup.policy": "compact"}))
		ms.must(eu.make(orders, 3, map[string]string{"cleanup.policy": "delete"}))
		ms.path(us, eu, near)
		ms.everywhere(orders, 3)
		ms.store.SetDown(false)
		ms.until("the same settings", func() bool {
			doc, err := ms.store.Get(ms.ctx, configstore.TopicKey(orders))
			return err == nil && doc.Version > 0 && maps.Equal(us.configs(orders), eu.configs(orders))
		})
	})
}

// TestDeletionWithoutTheStore: a deletion in the mesh is refused by a region that does
// not reach the store. It keeps its topic, and so do the others.
func TestDeletionWithoutTheStore(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.must(us.make(orders, 1, nil))
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "one")
		ms.untilCopied(us, eu, orders, 0)
		us.away.Store(true)
		if err := us.remove(orders, ""); rhumb.KindOf(err) != rhumb.KindUnavailable {
			t.Errorf("delete without the store: %v", err)
		}
		ms.pass(20 * time.Second)
		ms.same(us, eu, []string{"one"})
		us.away.Store(false)
		ms.until("deleted", func() bool { return us.remove(orders, "") == nil })
		ms.gone(orders)
	})
}

// TestDeletedByTwoAtOnce: two regions delete a topic at the same time, and it is made
// again by the first at once. The second deletes what it meant, not what is new.
func TestDeletedByTwoAtOnce(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		ms.must(us.make(orders, 1, nil))
		ms.everywhere(orders, 1)
		meant := eu.infoOf(orders)
		ms.must(us.remove(orders, ""))
		ms.must(us.make(orders, 2, nil))
		us.produce(orders, 1, "new")
		ms.until("eu has heard of it", func() bool { return eu.infoOf(orders).ID != meant.ID })
		ms.must(eu.running.Broker().DeleteTopic(ms.ctx, meant))
		ms.everywhere(orders, 2)
		ms.untilCopied(us, eu, orders, 1)
		if got := us.infoOf(orders).Deletions; got != 1 {
			t.Errorf("deletion count %d", got)
		}
	})
}

// TestRecreatedAtOnceElsewhere: a topic is deleted in one region and made again in
// another one at once, whose view of the store is silent. What is made is new: no old
// record, setting or position of a group is in it, in no region, and it stays.
func TestRecreatedAtOnceElsewhere(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		key := region.GroupKey{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Group: "readers"}
		ms.must(us.make(orders, 1, map[string]string{"retention.ms": "1000000"}))
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "old")
		for _, n := range nodes {
			ms.until("the old record", func() bool { return len(n.from(us, orders, 0)) == 1 })
			ms.must(n.commit(key, orders, 1))
		}
		ms.configured(orders, map[string]string{"retention.ms": "1000000"})
		ap.kill()
		ms.store.SetSilent(true)
		ms.must(us.remove(orders, ""))
		ms.must(eu.make(orders, 3, nil))
		eu.produce(orders, 2, "new")
		ms.store.SetSilent(false)
		ap.start()
		ms.everywhere(orders, 3)
		for _, n := range []*node{us, ap} {
			ms.until("the new record in "+string(n.name), func() bool { return n.has(orders, 3) && slices.Equal(n.from(eu, orders, 2), []string{"new"}) })
		}
		for _, n := range nodes {
			if got := n.from(us, orders, 0); len(got) != 0 {
				t.Errorf("%s has %q", n.name, got)
			}
			if got := n.configs(orders); len(got) != 0 {
				t.Errorf("%s has settings %v", n.name, got)
			}
			ms.until("the group has no position", func() bool {
				for _, c := range n.region().Offsets(key) {
					if c.Topic == orders {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestDeletedInOneRegionAlone: with delete_scope region a topic goes in that region
// only. Its neighbours go on, and do not bring it back; made there again it is a copy
// as of a region that was added, and the mesh's deletion reaches it.
func TestDeletedInOneRegionAlone(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
			n.DeleteScope = configstore.ScopeRegion
			return nil
		})
		ms.must(err)
		ms.must(us.make(orders, 1, nil))
		ms.everywhere(orders, 1)
		us.produce(orders, 0, "one")
		ms.untilCopied(us, eu, orders, 0)
		ms.pass(10 * time.Second) // all know the scope
		ms.must(eu.remove(orders, ""))
		us.produce(orders, 0, "two")
		eu.kill()
		eu.start()
		ms.untilCopied(us, ap, orders, 0)
		ms.pass(time.Minute)
		if eu.has(orders, 1) {
			t.Fatal("eu has the topic again")
		}
		ms.must(eu.make(orders, 1, nil))
		ms.untilCopied(us, eu, orders, 0)
		eu.produce(orders, 0, "three")
		ms.untilCopied(eu, us, orders, 0)
		ms.same(us, eu, []string{"one", "two"})
		ms.must(ap.remove(orders, configstore.ScopeMesh))
		ms.gone(orders)
	})
}

// TestDeletedInOneRegionWhileAnotherIsBehind: what a region deletes alone nobody else
// brings to those that lack it, so it waits for them, and is refused if they are away.
func TestDeletedInOneRegionWhileAnotherIsBehind(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		ms.must(us.make(orders, 2, nil))
		ms.everywhere(orders, 2)
		eu.produce(orders, 0, "one")
		ms.untilCopied(eu, ap, orders, 0)
		ms.path(eu, ap, relay.Settings{Cut: true})
		eu.produce(orders, 0, "two")
		ms.untilCopied(eu, us, orders, 0)
		err := eu.remove(orders, configstore.ScopeRegion)
		if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "have not reached [ap]") {
			t.Fatalf("ap lacks a record, and the answer is: %v", err)
		}
		ms.path(eu, ap, near)
		ms.until("deleted", func() bool { return eu.remove(orders, configstore.ScopeRegion) == nil })
		if got := ap.from(eu, orders, 0); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("ap has %q of eu", got)
		}
		if eu.has(orders, 2) {
			t.Error("eu has it still")
		}
	})
}

// TestH7DeletedWhileAway: a topic is deleted, and made again, while a region is away
// that has a backlog of it; that region's producers go on. It comes back, and has the
// new topic only, as everybody.
func TestH7DeletedWhileAway(t *testing.T) {
	t.Parallel()
	run(t, three, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		ms.must(us.make(orders, 1, nil))
		ms.everywhere(orders, 1)
		ms.cut(ap, true)
		ap.away.Store(true)
		ap.produce(orders, 0, "backlog")
		ms.must(us.remove(orders, ""))
		ms.must(us.make(orders, 2, nil))
		us.produce(orders, 0, "new")
		ap.produce(orders, 0, "still the old one")
		ap.kill()
		ap.start() // with the last good copy
		ap.produce(orders, 0, "and yet")
		ms.cut(ap, false)
		ms.pass(20 * time.Second)
		ms.untilCopied(us, eu, orders, 0)
		for _, n := range []*node{us, eu} {
			if got := n.from(ap, orders, 0); len(got) != 0 {
				t.Errorf("%s has %q of what was deleted", n.name, got)
			}
		}
		ap.away.Store(false)
		ms.everywhere(orders, 2)
		ms.untilCopied(us, ap, orders, 0)
		if got := slices.Concat(ap.from(us, orders, 0), ap.from(ap, orders, 0)); !slices.Equal(got, []string{"new"}) {
			t.Errorf("ap has %q", got)
		}
	})
}
