package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// shape is what administration says of a topic; zero: it is not there.
type shape struct {
	partitions int
	retention  string
}

// administrator works on a few topics, act after act, and knows for each what it
// may look like: one shape, or several after acts whose answers got lost.
type administrator struct {
	t      *testing.T
	client *kadm.Client
	rng    *rand.Rand
	may    map[string]map[shape]bool
	acts   int
	lost   int
}

// one picks any of the shapes that a topic may have.
func (a *administrator) one(topic string) shape {
	for s := range a.may[topic] {
		return s
	}
	return shape{}
}

// act does something that makes sense for the topic as it should be. Whatever the
// answer, the act was done once or not at all.
func (a *administrator) act(ctx context.Context, topic string) {
	before := a.one(topic)
	after := before
	var err error
	retention := strconv.Itoa(100_000 + a.rng.IntN(100_000))
	switch {
	case before.partitions == 0:
		after = shape{1 + a.rng.IntN(3), retention}
		var resp kadm.CreateTopicResponse
		resp, err = a.client.CreateTopic(ctx, int32(after.partitions), 1, map[string]*string{"retention.ms": &retention}, topic)
		if err == nil {
			err = resp.Err
		}
	case a.rng.IntN(3) == 0:
		after = shape{}
		var resp kadm.DeleteTopicResponse
		resp, err = a.client.DeleteTopic(ctx, topic)
		if err == nil {
			err = resp.Err
		}
	case a.rng.IntN(2) == 0 && before.partitions < 9:
		after.partitions++
		var resp kadm.CreatePartitionsResponses
		if resp, err = a.client.UpdatePartitions(ctx, after.partitions, topic); err == nil {
			err = resp[topic].Err
		}
	default:
		after.retention = retention
		var resp kadm.AlterConfigsResponses
		resp, err = a.client.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, topic)
		if err == nil {
			err = resp[0].Err
		}
	}
	a.acts++
	if err == nil {
		a.may[topic] = map[shape]bool{after: true}
		return
	}
	a.lost++
	a.may[topic] = map[shape]bool{before: true, after: true}
	a.look(ctx, topic) // what came of it decides what makes sense next
}

// shapeOf asks what a topic looks like.
func (a *administrator) shapeOf(ctx context.Context, topic string) (now shape, err error) {
	details, err := a.client.ListTopics(ctx, topic)
	if err != nil || details[topic].Err != nil {
		return now, err
	}
	now.partitions = len(details[topic].Partitions)
	configs, err := a.client.DescribeTopicConfigs(ctx, topic)
	if err == nil {
		err = configs[0].Err
	}
	if err != nil {
		return now, fmt.Errorf("settings: %w", err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "retention.ms" {
			now.retention = c.MaybeValue()
		}
	}
	return now, nil
}

// look compares a topic with what it may be, and from then on it is that.
func (a *administrator) look(ctx context.Context, topic string) {
	var now shape
	var err error
	// The region may die between two questions, and what a client is told of topics may
	// be a moment old, as Kafka's: what was lost stays lost.
	for until := time.Now().Add(Limit); time.Now().Before(until) && ctx.Err() == nil; {
		if now, err = a.shapeOf(ctx, topic); err == nil && a.may[topic][now] {
			break
		}
	}
	if err != nil {
		a.t.Errorf("look at %s: %v", topic, err)
		return
	}
	if !a.may[topic][now] {
		a.t.Errorf("%s is %+v after %d acts, it may be %v", topic, now, a.acts, a.may[topic])
	}
	a.may[topic] = map[shape]bool{now: true}
}

// Topics are made, altered, grown, deleted and made again at once while the
// process is killed with -9, time after time: what was answered is there, what was
// not is there whole or not at all.
func TestI1KillsInTheMiddleOfAdministration(t *testing.T) {
	m := Start(t, "us")
	seed := uint64(time.Now().UnixNano())
	m.note("administration by seed %d", seed)
	a := &administrator{t: t, client: kadm.NewClient(Client(t, m.Region("us").Kafka)), rng: rand.New(rand.NewPCG(seed, 1)), may: map[string]map[shape]bool{}}
	kills, acts := 12, 20
	if testing.Short() {
		kills, acts = 4, 20
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*Limit)
	defer cancel()
	progress, done := make(chan int, acts*(kills+1)), make(chan struct{})
	go func() {
		defer close(done)
		for i := range acts * (kills + 1) {
			a.act(ctx, fmt.Sprint("topic-", a.rng.IntN(3)))
			progress <- i
		}
	}()
	for range kills {
		for range acts {
			<-progress
		}
		m.Kill("us")
		m.Restart("us")
	}
	<-done
	for topic := range a.may {
		a.look(ctx, topic)
	}
	t.Logf("%d acts, %d without an answer, %d kills", a.acts, a.lost, kills)
	m.Stop()
}
