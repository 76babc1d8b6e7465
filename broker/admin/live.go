package admin

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Live is [Topics], [Logs] and [Data] of a real region: reads come from the
// region, changes go through its broker, which knows policy and limits.
type Live struct {
	Region *region.Region
	Broker *broker.Broker
}

// Topics gives all topics of the region.
func (l Live) Topics() []Topic {
	infos := l.Region.Topics()
	out := make([]Topic, len(infos))
	for i, t := range infos {
		out[i] = liveTopic(t)
	}
	return out
}

// Topic gives one topic.
func (l Live) Topic(name rhumb.Topic) (Topic, bool) {
	t, found := l.Region.Topic(name)
	return liveTopic(t), found
}

func liveTopic(t region.TopicInfo) Topic {
	out := Topic{Name: t.Topic, ID: t.ID, Deletions: t.Deletions, CreatedAt: t.CreatedAt, Configs: t.Configs}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, Partition{Ref: p.Ref, Life: p.Life, Ready: p.Ready})
	}
	return out
}

// CreateTopic makes a topic if policy allows it.
func (l Live) CreateTopic(ctx context.Context, name rhumb.Topic, partitions int32, configs map[string]string) (Topic, error) {
	spec := broker.TopicSpec{Topic: name, Partitions: partitions, Configs: configs, Deletions: l.Region.Deletions(name)}
	if _, err := l.Broker.CreateTopic(ctx, spec); err != nil {
		return Topic{}, err
	}
	t, found := l.Topic(name)
	if !found {
		return t, rhumb.Errorf(rhumb.KindNotFound, "topic %s was deleted while it was made", name.Short())
	}
	return t, nil
}

// State gives a partition's figures.
func (l Live) State(ref rhumb.PartitionRef) (State, bool) {
	st, there := l.Region.State(ref)
	if !there {
		return State{}, false
	}
	out := State{Life: st.Life, LogStart: st.LogStart, End: st.End, Flushed: st.Flushed, LeaderEpoch: st.LeaderEpoch,
		Bytes: st.Bytes, OwnLast: st.OwnLast, OwnChain: st.OwnChain}
	for _, p := range st.Past {
		out.Past = append(out.Past, PastLife{Life: p.Life, Last: p.Last, Chain: p.Chain})
	}
	for _, w := range st.Watermarks {
		out.Origins = append(out.Origins, Origin{Region: w.Region, Life: w.Life, Watermark: w.Offset, Floor: w.Floor, Chain: w.Chain})
	}
	return out, true
}

// Gaps gives a partition's gap records.
func (l Live) Gaps(ref rhumb.PartitionRef) []Gap {
	gaps := l.Region.Gaps(ref)
	out := make([]Gap, len(gaps))
	for i, g := range gaps {
		out[i] = Gap(g)
	}
	return out
}

// Read gives whole batches from an offset on.
func (l Live) Read(ref rhumb.PartitionRef, from rhumb.Offset, room ReadRoom) ([]Batch, error) {
	stored, err := l.Region.Read(ref, region.Query{From: from, Limit: math.MaxInt64, MaxBytes: room.Bytes, MostFirst: room.First})
	if err != nil {
		return nil, err
	}
	out := make([]Batch, len(stored))
	for i, s := range stored {
		out[i] = liveBatch(s)
	}
	return out, nil
}

// Seek finds the first batch of an origin life that ends at or after from. It does not
// read it: only where it lies counts, and it may be large.
func (l Live) Seek(ref rhumb.PartitionRef, number rhumb.RegionNumber, life rhumb.Life, from rhumb.Offset) (rhumb.Offset, bool, error) {
	stored, err := l.Region.ReadOrigin(ref, region.OriginQuery{Region: number, Life: life, From: from, Limit: math.MaxInt64, MaxBytes: 1, MostFirst: 1})
	if large, is := errors.AsType[*LargeBatchError](err); is {
		return large.Base, true, nil
	}
	if err != nil || len(stored) == 0 {
		return 0, false, err
	}
	return stored[0].Base, true, nil
}

func liveBatch(s region.Stored) Batch {
	e := &s.Envelope
	return Batch{Base: s.Base, Region: e.Region, Life: e.Life, First: e.First, Last: e.Last, Bytes: s.Batch}
}

// Produce appends one batch.
func (l Live) Produce(ctx context.Context, name rhumb.Topic, partition int32, batch []byte) (rhumb.Offset, error) {
	t, found := l.Broker.Topic(name)
	if !found {
		return 0, rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", name.Short())
	}
	appends := l.Broker.Append([]broker.AppendItem{{Topic: &t, Partition: partition, Records: batch}}, func(error) {})
	deadline, limited := ctx.Deadline()
	if !limited {
		deadline = time.Now().Add(bodyTimeout)
	}
	answer := appends.Wait(ctx, deadline)[0]
	return answer.Base, answer.Err
}

// Await waits until the partition's flushed end lies above offset.
func (l Live) Await(ctx context.Context, ref rhumb.PartitionRef, offset rhumb.Offset) {
	w := region.NewWaiter()
	if !l.Region.AddWaiter(ref, w) {
		return
	}
	defer l.Region.RemoveWaiter(ref, w)
	for {
		st, there := l.Region.State(ref)
		if !there || st.Flushed > offset {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.C:
		}
	}
}
