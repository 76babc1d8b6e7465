package broker_test

import (
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Lag is counted from each position to the end of its partition, in order of names,
// up to a limit; a deleted topic has none.
func TestLagOfGroups(t *testing.T) {
	r := brokertest.Real(t)
	b, err := broker.New(broker.Config{Region: r})
	if err != nil {
		t.Fatal(err)
	}
	space := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace}
	commit := func(group, topic string, partition int32, offset rhumb.Offset) {
		t.Helper()
		name := space
		name.Name = rhumb.TopicName(topic)
		info, ok := r.Topic(name)
		if !ok {
			info, err = b.CreateTopic(t.Context(), broker.TopicSpec{Topic: name, Partitions: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range info.Partitions {
				done := make(chan broker.AppendResult, 1)
				batch := brokertest.Batch{Times: []int64{1, 2, 3, 4, 5}}.Bytes()
				header, err := codec.CheckBatch(batch)
				if err != nil {
					t.Fatal(err)
				}
				r.Append(p.Ref, broker.AppendRequest{Batch: batch, Header: header}, func(a broker.AppendResult) { done <- a })
				if a := <-done; a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		key, err := broker.Group(space.Tenant, space.Namespace, group)
		if err != nil {
			t.Fatal(err)
		}
		stored := make(chan error, 1)
		c := broker.OffsetCommit{TopicID: info.ID, Topic: name, Partition: partition, Offset: offset}
		b.CommitOffsets(key, groups.MemberRef{Generation: groups.NoGeneration}, []broker.OffsetCommit{c}, func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	commit("b", "t", 0, 2)
	commit("a", "u", 1, 5)
	commit("a", "t", 1, 1)
	commit("a", "t", 0, 0)
	for most, want := range map[int]string{
		10: "a t 0 5, a t 1 4, a u 1 0, b t 0 3, left 0",
		2:  "a t 0 5, a t 1 4, left 2",
	} {
		got := ""
		lags, left := b.GroupLags(most)
		for _, l := range lags {
			got += fmt.Sprintf("%s %s %d %d, ", l.Group.Group, l.Topic.Short(), l.Partition, l.Records)
		}
		if got += fmt.Sprint("left ", left); got != want {
			t.Errorf("at most %d:\n%s\n%s", most, got, want)
		}
	}
	space.Name = "t"
	if err := r.DeleteTopic(t.Context(), space, 1); err != nil {
		t.Fatal(err)
	}
	if lags, left := b.GroupLags(10); len(lags) != 1 || left != 0 {
		t.Errorf("without the topic: %+v, %d left", lags, left)
	}
}
