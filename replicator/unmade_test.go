package replicator

import (
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestTopicThatCannotBeMadeSaysWhy: in the region that cannot make it, and at the peer
// that has records for it; when it can, both forget.
func TestTopicThatCannotBeMadeSaysWhy(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		full := true
		eu.region.failCreate = func(rhumb.Topic) error {
			if full {
				return rhumb.Errorf(rhumb.KindTooLarge, "too many partitions: above its limit of 60")
			}
			return nil
		}
		ms.start()
		us.create(orders, 1)
		us.produce(orders, 0, 1, 100)
		ms.until("us is told why", 20*time.Second, func() bool {
			return strings.Contains(us.flow("eu").LastError, "the topic cannot be made here: too many partitions")
		})
		u := eu.link("us").Unmade
		if len(u) != 1 || u[0].Unheard || u[0].Topics != 1 || u[0].Example != orders || !strings.Contains(u[0].Why, "limit of 60") {
			ms.t.Errorf("unmade %+v", u)
		}
		ms.pass(time.Minute)
		if again := eu.link("us").Unmade; len(again) != 1 || !again[0].Since.Equal(u[0].Since) {
			ms.t.Errorf("a minute later %+v, was %+v", again, u)
		}
		eu.region.mu.Lock()
		full = false
		eu.region.mu.Unlock()
		ms.until("copied", 20*time.Second, func() bool { return copied(us, eu, orders, 0) })
		if u := eu.link("us").Unmade; len(u) > 0 {
			ms.t.Errorf("still unmade: %+v", u)
		}
	})
}

// TestDeletionThatOnlyThePeerHasHeardOf: a region that does not reach the store keeps a
// topic that the mesh has deleted, takes nothing of the new one, and says so.
func TestDeletionThatOnlyThePeerHasHeardOf(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		ms.untilCopied(us, eu, 0)
		if err := us.region.DeleteTopic(t.Context(), orders, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := us.region.CreateTopic(t.Context(), topicSpec{Topic: orders, Partitions: 1, Deletions: 1}); err != nil {
			t.Fatal(err)
		}
		us.produce(orders, 0, 1, 100)
		ms.until("eu says so", 10*time.Second, func() bool {
			u := eu.link("us").Unmade
			return len(u) == 1 && u[0].Unheard && u[0].Example == orders && strings.Contains(u[0].Why, "of which this region has not heard")
		})
		if have, ok := eu.region.Topic(orders); !ok || have.Deletions != 0 {
			t.Errorf("eu's topic: %+v, %v", have, ok)
		}
		ms.policy.change(func() { ms.policy.docs = map[rhumb.Topic]configstore.Topic{orders: {Deletions: 1}} })
		ms.until("eu hears", 20*time.Second, func() bool { return copied(us, eu, orders, 0) && len(eu.link("us").Unmade) == 0 })
	})
}
