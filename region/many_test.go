package region

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func numbered(i int) rhumb.Topic {
	t := testTopic
	t.Name = rhumb.TopicName(fmt.Sprintf("t%05d", i))
	return t
}

// createTogether makes topics from so many goroutines.
func createTogether(r *Region, topics, together int) error {
	var wg sync.WaitGroup
	errs := make([]error, together)
	for g := range together {
		wg.Go(func() {
			for i := g; i < topics && errs[g] == nil; i += together {
				_, errs[g] = r.CreateTopic(context.Background(), TopicSpec{Topic: numbered(i), Partitions: 1})
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestManyTopicsAreMadeTogether: topics that are made at the same time are all
// usable, cost a small part of a flush each, and are told to followers once each.
func TestManyTopicsAreMadeTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		mark := n.TopicsSince(TopicsMark{}).Mark
		const topics = 600
		if err := createTogether(n.Region, topics, topics); err != nil {
			t.Fatal(err)
		}
		c := n.TopicsSince(mark)
		if c.Whole || c.Gone != 0 || len(c.Changed) != topics {
			t.Fatalf("whole %v, %d gone, %d changed, want %d changed", c.Whole, c.Gone, len(c.Changed), topics)
		}
		for _, info := range c.Changed {
			if !info.Ready() {
				t.Fatalf("%s is not ready", info.Topic)
			}
			if res := n.append(info.Partitions[0].Ref, makeBatch(1, 100, nil)); res.Err != nil || res.Base != 0 {
				t.Fatal(res)
			}
		}
		if unready, _ := n.shards[0].Unsettled(); len(unready) != 0 {
			t.Errorf("%d topics count as not ready", len(unready))
		}
		n.stop(true)
		again := startNode(t, n.fs, nil)
		if got := len(again.Topics()); got != topics {
			t.Errorf("%d topics after a crash, want %d", got, topics)
		}
		if unready, _ := again.shards[0].Unsettled(); len(unready) != 0 {
			t.Errorf("%d topics count as not ready after a crash", len(unready))
		}
	})
}

// TestTopicsSince: a follower is told what changed, that something is gone, and to
// look at everything where one change does not say what it concerns.
func TestTopicsSince(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		if c := n.TopicsSince(TopicsMark{}); !c.Whole {
			t.Error("nothing to start from, and not everything is to be looked at")
		}
		mark := n.TopicsSince(TopicsMark{}).Mark
		since := func(what string, whole bool, changed, gone int) {
			t.Helper()
			c := n.TopicsSince(mark)
			mark = c.Mark
			if c.Whole != whole || len(c.Changed) != changed || c.Gone != gone {
				t.Errorf("%s: whole %v, %d changed, %d gone", what, c.Whole, len(c.Changed), c.Gone)
			}
		}
		since("nothing", false, 0, 0)
		n.topic(numbered(1), 1)
		two := n.topic(numbered(2), 2)
		since("two topics", false, 2, 0)
		if _, err := n.GrowTopic(ctx, numbered(1), 3); err != nil {
			t.Fatal(err)
		}
		since("one grew", false, 1, 0)
		if err := n.DeleteTopic(ctx, numbered(1), 1); err != nil {
			t.Fatal(err)
		}
		since("one is gone", false, 0, 1)
		if err := n.AlterSettings(ctx, "some scope", func(map[string]string) (map[string]string, error) {
			return map[string]string{"a": "b"}, nil
		}); err != nil {
			t.Fatal(err)
		}
		since("settings", true, 0, 0)
		if _, _, err := n.NewLife(ctx, two.Partitions[0].Ref, LifeChange{Old: two.Partitions[0].Life, Last: rhumb.NoOffset}); err != nil {
			t.Fatal(err)
		}
		since("a life", true, 0, 0)
		since("nothing again", false, 0, 0)
	})
}

// BenchmarkCreateTopics makes topics on the system's disk, as many at the same time
// as a request of a Kafka client has in work.
func BenchmarkCreateTopics(b *testing.B) {
	store, err := storage.Open(storage.Config{FS: vfs.OS(), Dir: b.TempDir(), Shards: 16, MinFree: -1, Reserve: -1})
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(Config{Name: "us", Number: 7, Store: store, PartitionLimit: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	storeDone, done := make(chan error, 1), make(chan error, 1)
	go func() { storeDone <- store.Run(context.Background()) }()
	go func() { done <- r.Run(ctx) }()
	if err := r.WaitReady(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := createTogether(r, b.N, 256); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	cancel()
	<-done
	_ = store.Close()
	<-storeDone
}
