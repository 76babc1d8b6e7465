package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// seen is what the members of a group have read.
type seen struct {
	mu       sync.Mutex
	distinct map[string]bool
	again    int
}

func (s *seen) add(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%d %s", r.Partition, r.Value)
	if s.distinct[key] {
		s.again++
	}
	s.distinct[key] = true
}

func (s *seen) counts() (distinct, again int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.distinct), s.again
}

// member is one member of a group, which commits what it gives up.
type member struct {
	client *kgo.Client
	ended  chan struct{}

	mu    sync.Mutex
	owned map[int32]bool
}

func (s *steps) join(group, topic string, balancer kgo.GroupBalancer, seen *seen) (*member, error) {
	m := &member{ended: make(chan struct{}), owned: map[int32]bool{}}
	own := func(yes bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, c *kgo.Client, parts map[string][]int32) {
			if !yes {
				c.CommitUncommittedOffsets(ctx) // what fails here is read again
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range parts[topic] {
				if m.owned[p] = true; !yes {
					delete(m.owned, p)
				}
			}
		}
	}
	var err error
	m.client, err = s.dial(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(300*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(own(true)), kgo.OnPartitionsRevoked(own(false)), kgo.OnPartitionsLost(own(false)))
	if err != nil {
		return nil, err
	}
	go m.run(seen)
	return m, nil
}

func (m *member) run(seen *seen) {
	defer close(m.ended)
	for {
		fetches := m.client.PollRecords(context.Background(), 50)
		if fetches.IsClientClosed() {
			return
		}
		for r := range fetches.RecordsAll() {
			seen.add(r)
		}
		m.client.CommitUncommittedOffsets(context.Background()) // what fails here is read again
		m.client.AllowRebalance()
	}
}

func (m *member) share() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int32
	for p := range m.owned {
		out = append(out, p)
	}
	return out
}

func (m *member) stop() {
	m.client.CloseAllowingRebalance()
	<-m.ended
}

func (s *steps) group(ctx context.Context) (string, error) {
	one, err := s.rebalance(ctx, "range", kgo.RangeBalancer())
	if err != nil {
		return "", err
	}
	other, err := s.rebalance(ctx, "cooperative", kgo.CooperativeStickyBalancer())
	return one + "; " + other, err
}

func (s *steps) rebalance(ctx context.Context, name string, balancer kgo.GroupBalancer) (string, error) {
	topic, err := s.topic(ctx, "group-"+name, 6, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(ctx, topic, 6, 0, 600); err != nil {
		return "", err
	}
	seen := &seen{distinct: map[string]bool{}}
	var members []*member
	grow := func(to int, want ...int) error {
		for len(members) < to {
			m, err := s.join(topic, topic, balancer, seen)
			if err != nil {
				return err
			}
			members = append(members, m)
		}
		for len(members) > to {
			members[to].stop()
			members = members[:to]
		}
		return until(ctx, fmt.Sprintf("shares of %d", want), func() (bool, error) {
			var shares []int
			all := map[int32]bool{}
			for _, m := range members {
				for _, p := range m.share() {
					all[p] = true
				}
				shares = append(shares, len(m.share()))
			}
			slices.Sort(shares)
			return slices.Equal(shares, want) && (len(all) == 6 || to == 0), nil
		})
	}
	read := func(n int) error {
		return until(ctx, fmt.Sprintf("%d are read", n), func() (bool, error) { distinct, _ := seen.counts(); return distinct == n, nil })
	}
	for _, do := range []func() error{
		func() error { return grow(1, 6) }, func() error { return grow(3, 2, 2, 2) }, func() error { return read(600) },
		func() error { return grow(2, 3, 3) }, func() error { return s.fill(ctx, topic, 6, 600, 660) }, func() error { return read(660) },
		func() error { return grow(0) },
	} {
		if err := do(); err != nil {
			return "", err
		}
	}
	_, again := seen.counts()
	committed, err := s.admin.FetchOffsets(ctx, topic)
	err = errors.Join(err, equal("records read again", again, 0))
	for p := range int32(6) {
		at, _ := committed.Lookup(topic, p)
		err = errors.Join(err, equal("committed", at.At, 110))
	}
	return name + ": 1, 3 and 2 members read 660 once", err
}

func (s *steps) commits(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "commits", 1, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(ctx, topic, 1, 0, 10); err != nil {
		return "", err
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, At: 7, LeaderEpoch: -1, Metadata: "seven"})
	if err := s.admin.CommitAllOffsets(ctx, topic, offsets); err != nil {
		return "", err
	}
	committed, err := s.admin.FetchOffsets(ctx, topic)
	at, _ := committed.Lookup(topic, 0)
	if err := errors.Join(err, equal("committed", fmt.Sprint(at.At, at.Metadata), fmt.Sprint(7, "seven"))); err != nil {
		return "", err
	}
	c, err := s.dial(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	if err != nil {
		return "", err
	}
	defer c.Close()
	fetches := c.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	return "offset and metadata kept, the group goes on there", equal("where the group goes on", fetches.Records()[0].Offset, 7)
}

func (s *steps) groups(ctx context.Context) (string, error) {
	group := s.name + "-commits"
	listed, err := s.admin.ListGroups(ctx)
	if err != nil || !slices.Contains(listed.Groups(), group) {
		return "", fmt.Errorf("the group is not listed: %v %v", listed.Groups(), err)
	}
	described, err := s.admin.DescribeGroups(ctx, group)
	if err := errors.Join(err, described[group].Err, equal("described", described[group].State, "Empty")); err != nil {
		return "", err
	}
	deleted, err := s.admin.DeleteGroups(ctx, group)
	if err := errors.Join(err, deleted[group].Err); err != nil {
		return "", err
	}
	listed, err = s.admin.ListGroups(ctx)
	if slices.Contains(listed.Groups(), group) {
		err = errors.New("the group is still listed")
	}
	return "listed, described and deleted", err
}

// load produces numbers until its standard input ends, while two members of a
// group read them.
func load(bootstrap, topic string) error {
	ctx := context.Background()
	s, err := newSteps(bootstrap)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.admin.CreateTopic(ctx, 3, 1, nil, topic); err != nil {
		return err
	}
	seen := &seen{distinct: map[string]bool{}}
	for range 2 {
		m, err := s.join(topic+"-readers", topic, kgo.CooperativeStickyBalancer(), seen)
		if err != nil {
			return err
		}
		defer m.stop()
	}
	p, err := s.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(1000))
	if err != nil {
		return err
	}
	defer p.Close()
	stop := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(stop) }()
	n, err := produceUntil(ctx, p, stop)
	if err != nil {
		return err
	}
	fmt.Println("produced", n)
	if err := until(ctx, "the group has read everything", func() (bool, error) { distinct, _ := seen.counts(); return distinct >= n, nil }); err != nil {
		return err
	}
	distinct, again := seen.counts()
	fmt.Printf("ok load: the group read %d, %d of them again\n", distinct, again)
	return nil
}

// produceUntil gives how many records were sent; all are acknowledged.
func produceUntil(ctx context.Context, p *kgo.Client, stop <-chan struct{}) (n int, err error) {
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-stop:
			if err := p.Flush(ctx); err != nil {
				return n, err
			}
			if e := failed.Load(); e != nil {
				return n, *e
			}
			return n, equal("acknowledged", acked.Load(), n)
		case <-pace.C:
		}
		for range 10 {
			p.Produce(ctx, &kgo.Record{Partition: int32(n % 3), Value: []byte(strconv.Itoa(n))}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				} else if a := acked.Add(1); a%200 == 0 {
					fmt.Println("acked", a)
				}
			})
			n++
		}
	}
}
