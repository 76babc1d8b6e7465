package region

import (
	"context"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// A topic that is deleted in its region alone leaves the deletion count as it is,
// is remembered through a loss of power, and is forgotten when it is made again.
func TestDeletedHereIsRemembered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		ctx := context.Background()
		if err := n.DeleteTopic(ctx, testTopic, 3); err != nil {
			t.Fatal(err)
		}
		make3 := func() rhumb.Life {
			t.Helper()
			info, err := n.CreateTopic(ctx, TopicSpec{Topic: testTopic, Partitions: 1, Deletions: 3})
			if err != nil {
				t.Fatal(err)
			}
			return info.Partitions[0].Life
		}
		was := make3()
		if n.DeletedHere(testTopic, 3) {
			t.Fatal("a topic that is there counts as deleted")
		}
		if err := n.DeleteHere(ctx, testTopic, true); err != nil {
			t.Fatal(err)
		}
		n = n.restart(1, nil)
		if _, ok := n.Topic(testTopic); ok || n.Deletions(testTopic) != 3 {
			t.Fatalf("there: %v, count %d", ok, n.Deletions(testTopic))
		}
		if !n.DeletedHere(testTopic, 3) || n.DeletedHere(testTopic, 4) {
			t.Fatal("what was deleted here is count 3 and below")
		}
		if now := make3(); now == was || n.DeletedHere(testTopic, 3) {
			t.Fatal("made again it is another log, and welcome")
		}
		if err := n.DeleteHere(ctx, testTopic, false); err != nil {
			t.Fatal(err)
		}
		if err := n.DeleteHere(ctx, testTopic, true); err != nil {
			t.Fatal("nothing to delete is no error:", err)
		}
	})
}
