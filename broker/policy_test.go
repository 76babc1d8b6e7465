package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// counts are deletion counts as a configuration store would give them.
type counts struct {
	mu  sync.Mutex
	of  map[rhumb.Topic]uint64
	fns []func()
}

func (c *counts) DeleteLife(context.Context, rhumb.Topic, uint64) (uint64, error) {
	return 0, errors.New("nobody deletes here")
}

func (c *counts) Change(context.Context, rhumb.Topic, func(*configstore.Topic) error) (configstore.Topic, error) {
	return configstore.Topic{}, errors.New("nobody changes anything here")
}

func (c *counts) Travels(rhumb.Topic) bool                    { return false }
func (c *counts) Scope(rhumb.Topic) (configstore.Scope, bool) { return configstore.ScopeRegion, false }
func (c *counts) Latest(context.Context, rhumb.Topic)         {}

func (c *counts) Document(t rhumb.Topic) configstore.Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return configstore.Topic{Topic: t, Deletions: c.of[t]}
}

func (c *counts) Subscribe(fn func()) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fns = append(c.fns, fn)
	return func() {}
}

func (c *counts) raise(t rhumb.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[t]++
	for _, fn := range c.fns {
		fn()
	}
}

// refusing is a region that refuses the first deletions, as one without a leader.
type refusing struct {
	*brokertest.Region
	left int
}

func (r *refusing) DeleteTopic(ctx context.Context, t rhumb.Topic, count uint64) error {
	if r.left > 0 {
		r.left--
		return rhumb.Errorf(rhumb.KindNotLeader, "does not lead")
	}
	return r.Region.DeleteTopic(ctx, t, count)
}

func followed(t *testing.T, test func(ctx context.Context, b *broker.Broker, r *refusing, c *counts, topic rhumb.Topic)) {
	bubble.Test(t, func(t *testing.T) {
		r, c := &refusing{Region: brokertest.New()}, &counts{of: map[rhumb.Topic]uint64{}}
		b, err := broker.New(broker.Config{Region: r, Names: c})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		topic := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: "t"}
		test(ctx, b, r, c, topic)
		cancel()
		synctest.Wait()
	})
}

func create(t *testing.T, r *refusing, topic rhumb.Topic) {
	t.Helper()
	if _, err := r.CreateTopic(t.Context(), broker.TopicSpec{Topic: topic, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
}

// A topic may be made at the moment at which the mesh deletes its name: by a client
// or a link that looked at the count just before. It does not stay.
func TestTopicMadeUnderAPassedCountGoes(t *testing.T) {
	followed(t, func(ctx context.Context, b *broker.Broker, r *refusing, c *counts, topic rhumb.Topic) {
		go b.Follow(ctx)
		synctest.Wait()
		c.raise(topic)
		synctest.Wait()
		create(t, r, topic)
		time.Sleep(2 * time.Second) // of the bubble
		synctest.Wait()
		if _, ok := r.Topic(topic); ok {
			t.Fatal("a topic of a count that was passed stays")
		}
	})
}

// telling is a region that tells which topics were made, and counts who looks at all.
type telling struct {
	*refusing
	mu   sync.Mutex
	made []broker.TopicInfo
	all  int
}

func (r *telling) add(info broker.TopicInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, info)
}

// looks gives how often all topics were asked for since the last call.
func (r *telling) looks() (n int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	n, r.all = r.all, 0
	return n
}

func (r *telling) Topics() []broker.TopicInfo {
	r.mu.Lock()
	r.all++
	r.mu.Unlock()
	return r.refusing.Topics()
}

func (r *telling) TopicsSince(m region.TopicsMark) region.TopicChanges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return region.TopicChanges{Mark: region.TopicsMark{Topics: uint64(len(r.made))}, Changed: r.made[m.Topics:]}
}

// TestFollowLooksAtWhatChanged: while topics are made, those are looked at, and all only
// when the mesh tells something or one is not as the mesh says.
func TestFollowLooksAtWhatChanged(t *testing.T) {
	followed(t, func(ctx context.Context, _ *broker.Broker, r *refusing, c *counts, topic rhumb.Topic) {
		x := &telling{refusing: r}
		b, err := broker.New(broker.Config{Region: x, Names: c})
		if err != nil {
			t.Fatal(err)
		}
		add := func(name rhumb.TopicName) rhumb.Topic {
			topic.Name = name
			info, err := r.CreateTopic(ctx, broker.TopicSpec{Topic: topic, Partitions: 1})
			if err != nil {
				t.Fatal(err)
			}
			x.add(info)
			return topic
		}
		go b.Follow(ctx)
		x.looks()
		for _, name := range []rhumb.TopicName{"a", "b", "c"} {
			add(name)
			<-time.After(3 * time.Second)
		}
		if n := x.looks(); n > 0 {
			t.Errorf("all topics were looked at %d times while three were made", n)
		}
		c.raise(rhumb.Topic{Tenant: topic.Tenant, Namespace: topic.Namespace, Name: "late"})
		if x.looks() == 0 {
			t.Error("the mesh told something, and nobody looked at all topics")
		}
		r.left = 2
		late := add("late")
		<-time.After(5 * time.Second)
		if _, there := r.Topic(late); there || r.left > 0 {
			t.Errorf("a topic of a passed count is there: %v; refusals left: %d", there, r.left)
		}
	})
}

func TestCatchUpReturnsWhenNothingIsLeft(t *testing.T) {
	followed(t, func(ctx context.Context, b *broker.Broker, r *refusing, c *counts, topic rhumb.Topic) {
		create(t, r, topic)
		c.raise(topic)
		r.left = 3
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Topic(topic); ok || r.left != 0 {
			t.Fatalf("caught up with the topic there: %v, refusals left: %d", ok, r.left)
		}
		create(t, r, topic) // above the count it is welcome
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Topic(topic); !ok {
			t.Fatal("a topic of the present count is gone")
		}
	})
}
