package region

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestAwaitedTopics: who waits for a topic is woken when that one changes or something is
// deleted, also after nobody waited for a while, and not for others.
func TestAwaitedTopics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		one, two := n.topic(numbered(1), 1), n.topic(numbered(2), 1)
		check := func(what string, c <-chan struct{}, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-c:
				if !want {
					t.Errorf("%s: woken", what)
				}
			default:
				if want {
					t.Errorf("%s: not woken", what)
				}
			}
		}
		first, leaveFirst := n.awaited.add(n.shards[0], one.ID)
		second, leaveSecond := n.awaited.add(n.shards[0], one.ID)
		check("what was before", first, false)
		n.topic(numbered(3), 1)
		check("another topic is made", first, false)
		if _, err := n.GrowTopic(ctx, two.Topic, 2); err != nil {
			t.Fatal(err)
		}
		check("another topic grew", first, false)
		if _, err := n.GrowTopic(ctx, one.Topic, 2); err != nil {
			t.Fatal(err)
		}
		check("it grew", first, true)
		check("it grew, the other one who waits", second, true)
		leaveFirst()
		if err := n.DeleteTopic(ctx, one.Topic, 1); err != nil {
			t.Fatal(err)
		}
		check("it is deleted, and who left", first, false)
		check("it is deleted", second, true)
		leaveSecond()
		if len(n.awaited.waiting) != 0 {
			t.Errorf("%d topics are waited for by nobody", len(n.awaited.waiting))
		}
		n.topic(numbered(4), 1)
		third, leave := n.awaited.add(n.shards[0], two.ID)
		defer leave()
		check("what nobody waited for", third, false)
		if _, err := n.GrowTopic(ctx, two.Topic, 3); err != nil {
			t.Fatal(err)
		}
		check("it grew later", third, true)
	})
}

// TestTopicsThatAreMadeWhileTheRegionStops: who waits for a topic is answered when the
// region stops in the middle of it, and the region ends.
func TestTopicsThatAreMadeWhileTheRegionStops(t *testing.T) {
	for yields := 1; yields <= 1<<14; yields *= 4 {
		bubble.Test(t, func(t *testing.T) {
			const topics = 500
			n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
			answered := make(chan error, 1)
			go func() { answered <- createTogether(n.Region, topics, topics) }()
			for range yields {
				runtime.Gosched()
			}
			n.stop(true)
			if err := <-answered; err == nil && len(n.Topics()) != topics {
				t.Errorf("all are made, and %d are there", len(n.Topics()))
			}
		})
	}
}
