package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// gathering is a region whose deletions end when so many are under way.
type gathering struct {
	*refusing
	want int
	mu   sync.Mutex
	have int
	all  chan struct{}
}

func (g *gathering) DeleteTopic(ctx context.Context, t rhumb.Topic, count uint64) error {
	g.mu.Lock()
	if g.have++; g.have == g.want {
		close(g.all)
	}
	g.mu.Unlock()
	select {
	case <-g.all:
		return g.Region.DeleteTopic(ctx, t, count)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestWhatTheMeshDeletedGoesTogether: a region that was away, or hears of many deletions,
// does not wait for one before the next.
func TestWhatTheMeshDeletedGoesTogether(t *testing.T) {
	followed(t, func(ctx context.Context, _ *broker.Broker, r *refusing, c *counts, topic rhumb.Topic) {
		for _, follow := range []bool{false, true} {
			const topics = 100
			g := &gathering{refusing: r, want: topics, all: make(chan struct{})}
			b, err := broker.New(broker.Config{Region: g, Names: c})
			if err != nil {
				t.Fatal(err)
			}
			for i := range topics {
				topic.Name = rhumb.TopicName(fmt.Sprint("t", follow, i))
				create(t, r, topic)
				c.raise(topic)
			}
			if follow {
				go b.Follow(ctx)
			} else {
				go b.CatchUp(ctx)
			}
			synctest.Wait()
			if left := len(r.Topics()); left > 0 {
				t.Errorf("follow %v: %d topics left, %d deletions under way", follow, left, g.have)
			}
		}
	})
}
