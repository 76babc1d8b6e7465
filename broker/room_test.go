package broker_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// tight lets the namespace acme/shop have five partitions.
type tight struct{}

func (tight) CheckTopic(rhumb.Topic) error   { return nil }
func (tight) CheckProduce(rhumb.Topic) error { return nil }
func (tight) PartitionLimit(t rhumb.Topic) int {
	if t.Namespace == "shop" {
		return 5
	}
	return 0
}

// TestNamespaceHasAPartitionLimit: clients make and grow topics up to the limit, however
// many ask at once; other namespaces, what links bring and what is there are not touched.
func TestNamespaceHasAPartitionLimit(t *testing.T) {
	r := brokertest.New()
	b, err := broker.New(broker.Config{Region: r, Policy: tight{}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(namespace, name string) rhumb.Topic {
		return rhumb.Topic{Tenant: "acme", Namespace: rhumb.Namespace(namespace), Name: rhumb.TopicName(name)}
	}
	create := func(topic rhumb.Topic, n int32) error {
		_, err := b.CreateTopic(t.Context(), broker.TopicSpec{Topic: topic, Partitions: n})
		return err
	}
	for i, c := range []struct {
		topic   rhumb.Topic
		n       int32
		refused bool
	}{{at("shop", "a"), 3, false}, {at("shop", "b"), 3, true}, {at("other", "b"), 30, false}, {at("shop", "b"), 1, false}} {
		if err := create(c.topic, c.n); errors.Is(err, broker.ErrNamespaceLimit) != c.refused || err != nil && !c.refused {
			t.Errorf("step %d: %v", i, err)
		}
	}
	info, _ := b.Topic(at("shop", "b"))
	if err := b.GrowTopic(t.Context(), &info, 3); !errors.Is(err, broker.ErrNamespaceLimit) || rhumb.KindOf(err) != rhumb.KindNoSpace {
		t.Errorf("grown above it: %v", err)
	}
	var made sync.WaitGroup
	won := make(chan string, 20)
	for i := range 20 {
		made.Go(func() {
			if create(at("shop", fmt.Sprint("racing ", i)), 1) == nil || create(at("shop", fmt.Sprint("racing", i)), 1) == nil {
				won <- fmt.Sprint(i)
			}
		})
	}
	made.Wait()
	if len(won) != 1 {
		t.Errorf("%d got the last partition", len(won))
	}
	if _, err := r.CreateTopic(t.Context(), broker.TopicSpec{Topic: at("shop", "by a link"), Partitions: 7}); err != nil {
		t.Error(err)
	}
	if err := b.RoomFor(at("shop", "z"), 1); !errors.Is(err, broker.ErrNamespaceLimit) {
		t.Errorf("room for one more: %v", err)
	}
	if err := b.DeleteTopic(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	if err := create(at("shop", "z"), 1); !errors.Is(err, broker.ErrNamespaceLimit) {
		t.Errorf("still above it: %v", err)
	}
}

// TestRemovedRegionMakesNoTopics: they would be in no other region; one that drains goes on
// as others do, and so does one that is back.
func TestRemovedRegionMakesNoTopics(t *testing.T) {
	b, err := broker.New(broker.Config{Region: brokertest.New()})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	try := func() (created, grown error) {
		made++
		name := rhumb.Topic{Tenant: "acme", Namespace: "shop", Name: rhumb.TopicName(fmt.Sprint("t", made))}
		_, created = b.CreateTopic(t.Context(), broker.TopicSpec{Topic: name, Partitions: 1})
		old, ok := b.Topic(rhumb.Topic{Tenant: "acme", Namespace: "shop", Name: "t1"})
		if !ok {
			t.Fatal("t1 is not there")
		}
		return created, b.GrowTopic(t.Context(), &old, int32(made)+1)
	}
	for i, c := range []struct {
		why  error
		want error
	}{
		{nil, nil},
		{fmt.Errorf("%w: it drains", broker.ErrShut), nil},
		{fmt.Errorf("%w: %w", broker.ErrShut, configstore.ErrRemoved), configstore.ErrRemoved},
		{nil, nil},
	} {
		b.RefuseProducers(c.why)
		created, grown := try()
		if !errors.Is(created, c.want) || !errors.Is(grown, c.want) {
			t.Errorf("step %d: %v, %v, want %v", i, created, grown, c.want)
		}
	}
}
