package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinRequest is a consumer that knows one way of assigning.
func joinRequest(group, member string, version int16) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = version, group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscriptionOf("t")}}
	return req
}

// subscriptionOf encodes what a consumer says that reads topics.
func subscriptionOf(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

// fleet is a group of franz-go consumers that share what they have read.
type fleet struct {
	h *harness

	mu    sync.Mutex
	seen  map[string]int // value → how often
	owned map[int]map[int32]bool
	moves int // partitions that were assigned or revoked
	wake  chan struct{}
}

func newFleet(h *harness) *fleet {
	return &fleet{h: h, seen: map[string]int{}, owned: map[int]map[int32]bool{}, wake: make(chan struct{}, 1)}
}

func (f *fleet) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// join adds consumer n, which reads until stop is called. stop leaves the group,
// unless the consumer is a static member.
func (f *fleet) join(n int, topic string, opts ...kgo.Opt) (stop func()) {
	f.h.Helper()
	note := func(own bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.moves += len(parts[topic])
			for _, p := range parts[topic] {
				if own {
					f.owned[n][p] = true
				} else {
					delete(f.owned[n], p)
				}
			}
			f.changed()
		}
	}
	f.mu.Lock()
	f.owned[n] = map[int32]bool{}
	f.mu.Unlock()
	// A stop may cut a connection off before its first answer, which this client else takes
	// for a wrong address: it would give up its partitions.
	c := f.h.client(append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.ConsumerGroup("fleet"), kgo.ConsumeTopics(topic), kgo.OnPartitionsAssigned(note(true)),
		kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false)), kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.AutoCommitInterval(100 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	ctx, cancel := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			fetched := c.PollFetches(ctx)
			f.mu.Lock()
			fetched.EachRecord(func(r *kgo.Record) { f.seen[string(r.Value)]++ })
			f.changed()
			f.mu.Unlock()
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			reader.Wait()
			c.Close()
			f.mu.Lock()
			f.owned[n] = map[int32]bool{}
			f.mu.Unlock()
		})
	}
	f.h.Cleanup(stop)
	return stop
}

// until waits for a condition on what the fleet has.
func (f *fleet) until(what string, ok func() bool) {
	f.h.Helper()
	end := time.NewTimer(2 * time.Minute)
	defer end.Stop()
	for {
		f.mu.Lock()
		done := ok()
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-f.wake:
		case <-end.C:
			f.mu.Lock()
			defer f.mu.Unlock()
			f.h.Fatalf("never: %s; owned %v, %d values seen", what, f.owned, len(f.seen))
		}
	}
}

// shared reports whether the partitions are shared out among consumers, each to
// one, and every consumer has some.
func (f *fleet) shared(partitions int, consumers ...int) bool {
	owner := map[int32]int{}
	for _, n := range consumers {
		for p := range f.owned[n] {
			owner[p]++
		}
		if len(f.owned[n]) == 0 {
			return false
		}
	}
	for _, times := range owner {
		if times != 1 {
			return false
		}
	}
	return len(owner) == partitions
}

func (f *fleet) produce(topic string, from, to int) {
	f.h.Helper()
	c := f.h.client()
	defer c.Close()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	if err := c.ProduceSync(f.h.ctx(), records...).FirstErr(); err != nil {
		f.h.Fatal(err)
	}
}

// Three members share six partitions, one leaves, another comes; each record is
// read, and what was committed is not read again.
func TestFranzGroupOfThree(t *testing.T) { both(t, franzGroupOfThree) }

func franzGroupOfThree(t *testing.T, h *harness) {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			topic := "shared-" + name
			h.topic(topic, 6, nil)
			f := newFleet(h)
			group := kgo.ConsumerGroup("fleet-" + name)
			f.produce(topic, 0, 200)
			f.join(1, topic, group, kgo.Balancers(balancer))
			f.join(2, topic, group, kgo.Balancers(balancer))
			stop := f.join(3, topic, group, kgo.Balancers(balancer))
			f.until("three share", func() bool { return f.shared(6, 1, 2, 3) && len(f.seen) == 200 })
			stop()
			f.until("two share", func() bool { return f.shared(6, 1, 2) })
			f.produce(topic, 200, 400)
			f.join(4, topic, group, kgo.Balancers(balancer))
			f.until("three share again", func() bool { return f.shared(6, 1, 2, 4) && len(f.seen) == 400 })
			a := h.admin()
			waitFor(t, "a stable group of three", func() bool { // a member may just be joining once more
				d, err := a.DescribeGroups(h.ctx(), "fleet-"+name)
				if err != nil {
					t.Fatalf("%+v, %v", d, err)
				}
				return d["fleet-"+name].State == "Stable" && len(d["fleet-"+name].Members) == 3
			})
		})
	}
}

// What kafka-consumer-groups does: it lists, describes, resets and deletes.
func TestFranzGroupAdmin(t *testing.T) { both(t, franzGroupAdmin) }

func franzGroupAdmin(t *testing.T, h *harness) {
	info := h.topic("t", 2, nil)
	other := h.topic("other", 1, nil)
	f := newFleet(h)
	stop := f.join(1, "t", kgo.Balancers(kgo.RangeBalancer()))
	f.until("it has both", func() bool { return f.shared(2, 1) })
	a := h.admin()
	waitFor(t, "a stable group", func() bool { // the member may just be joining once more
		listed, err := a.ListGroups(h.ctx(), "Stable")
		if err != nil {
			t.Fatal(err)
		}
		return listed["fleet"].ProtocolType == "consumer"
	})
	reset := kadm.Offsets{}
	reset.AddOffset("t", 0, 0, -1)
	if resp, err := a.CommitOffsets(h.ctx(), "fleet", reset); err != nil || resp.Error() == nil {
		t.Fatalf("a reset while there are members: %+v, %v", resp, err)
	}
	if del, err := a.DeleteGroups(h.ctx(), "fleet"); err != nil || del["fleet"].Err == nil {
		t.Fatalf("deletion while there are members: %+v, %v", del, err)
	}
	stop()
	if listed, err := a.ListGroups(h.ctx(), "Empty"); err != nil || len(listed) != 1 {
		t.Fatalf("%+v, %v", listed, err)
	}
	reset.AddOffset(other.Topic.Short(), 0, 7, -1)
	if resp, err := a.CommitOffsets(h.ctx(), "fleet", reset); err != nil || resp.Error() != nil {
		t.Fatalf("a reset: %+v, %v", resp, err)
	}
	gone := kadm.TopicsSet{}
	gone.Add("other", 0)
	if resp, err := a.DeleteOffsets(h.ctx(), "fleet", gone); err != nil || resp.Error() != nil {
		t.Fatalf("%+v, %v", resp, err)
	}
	left, err := a.FetchOffsets(h.ctx(), "fleet")
	if _, ok := left.Lookup("other", 0); err != nil || ok {
		t.Fatalf("%+v, %v of %v", left, err, info.ID)
	}
	if del, err := a.DeleteGroups(h.ctx(), "fleet", "never"); err != nil || del["fleet"].Err != nil || del["never"].Err == nil {
		t.Fatalf("%+v, %v", del, err)
	}
	if listed, err := a.ListGroups(h.ctx()); err != nil || len(listed) != 0 {
		t.Fatalf("%+v, %v", listed, err)
	}
}
