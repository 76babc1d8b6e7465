package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// seen is what the members of a group have read.
type seen struct {
	mu       sync.Mutex
	distinct map[string]bool
	again    int
}

func (s *seen) add(m *sarama.ConsumerMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%d %s", m.Partition, m.Value)
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
	group  sarama.ConsumerGroup
	seen   *seen
	cancel func()
	ended  chan struct{}

	mu    sync.Mutex
	owned []int32
}

func (s *steps) join(group, topic string, strategy sarama.BalanceStrategy, seen *seen) (*member, error) {
	c := config()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	g, err := sarama.NewConsumerGroup(s.bootstrap, group, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: g, seen: seen, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{topic}, m); err != nil { // it joins again at once, as its documentation asks
				fmt.Fprintln(os.Stderr, "member:", err)
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
	}()
	return m, nil
}

// Setup is called when a generation begins.
func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for parts := range maps.Values(s.Claims()) {
		m.owned = parts
	}
	return nil
}

// Cleanup is called when a generation has ended, before its offsets are given up.
func (m *member) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = nil
	return nil
}

// ConsumeClaim reads one partition for as long as the generation lasts.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case msg, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.seen.add(msg)
			if s.MarkMessage(msg, ""); msg.Offset%50 == 49 {
				s.Commit()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (m *member) share() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *member) stop() error {
	m.cancel()
	<-m.ended
	return m.group.Close()
}

func (s *steps) group(ctx context.Context) (string, error) {
	one, err := s.rebalance(ctx, "range", sarama.NewBalanceStrategyRange())
	if err != nil {
		return "", err
	}
	other, err := s.rebalance(ctx, "sticky", sarama.NewBalanceStrategySticky())
	return one + "; " + other, err
}

func (s *steps) rebalance(ctx context.Context, name string, strategy sarama.BalanceStrategy) (string, error) {
	topic, err := s.topic(ctx, "group-"+name, 6, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(topic, 6, 0, 600); err != nil {
		return "", err
	}
	seen := &seen{distinct: map[string]bool{}}
	var members []*member
	resize := func(to int, want ...int) error {
		for len(members) < to {
			m, err := s.join(topic, topic, strategy, seen)
			if err != nil {
				return err
			}
			members = append(members, m)
		}
		for len(members) > to {
			if err := members[to].stop(); err != nil {
				return err
			}
			members = slices.Delete(members, to, to+1)
		}
		return until(ctx, fmt.Sprintf("shares of %d", want), func() (bool, error) {
			var shares []int
			for _, m := range members {
				shares = append(shares, len(m.share()))
			}
			slices.Sort(shares)
			return slices.Equal(shares, want), nil
		})
	}
	read := func(n int) error {
		return until(ctx, fmt.Sprintf("%d are read", n), func() (bool, error) { distinct, _ := seen.counts(); return distinct == n, nil })
	}
	for _, do := range []func() error{
		func() error { return resize(1, 6) }, func() error { return resize(3, 2, 2, 2) }, func() error { return read(600) },
		func() error { return resize(2, 3, 3) }, func() error { return s.fill(topic, 6, 600, 660) }, func() error { return read(660) },
		func() error { return resize(0) },
	} {
		if err := do(); err != nil {
			return "", err
		}
	}
	_, again := seen.counts()
	return name + ": 1, 3 and 2 members read 660 once", errors.Join(equal("records read again", again, 0), s.committed(topic, 6, 110, ""))
}

// committed compares what a group has committed in the first n partitions of the
// topic of its name.
func (s *steps) committed(group string, n int32, want int64, metadata string) error {
	answer, err := s.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return err
	}
	for p := range n {
		b := answer.GetBlock(group, p)
		if b == nil {
			return fmt.Errorf("nothing is committed in partition %d", p)
		}
		err = errors.Join(err, equal("committed", fmt.Sprint(b.Offset, b.Metadata), fmt.Sprint(want, metadata)))
	}
	return err
}

func (s *steps) commits(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "commits", 1, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(topic, 1, 0, 10); err != nil {
		return "", err
	}
	offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 7, Metadata: "seven", LeaderEpoch: -1}}}
	if answer, err := s.admin.AlterConsumerGroupOffsets(topic, offsets, nil); err != nil || answer.Errors[topic][0] != sarama.ErrNoError {
		return "", fmt.Errorf("commit: %v, %w", answer, err)
	}
	if err := s.committed(topic, 1, 7, "seven"); err != nil {
		return "", err
	}
	seen := &seen{distinct: map[string]bool{}}
	m, err := s.join(topic, topic, sarama.NewBalanceStrategyRange(), seen)
	if err != nil {
		return "", err
	}
	if err := until(ctx, "7, 8 and 9 are read", func() (bool, error) { distinct, _ := seen.counts(); return distinct == 3, nil }); err != nil {
		return "", err
	}
	if err := m.stop(); err != nil {
		return "", err
	}
	return "offset and metadata kept, the group goes on there", equal("read", slices.Sorted(maps.Keys(seen.distinct)), []string{"0 7", "0 8", "0 9"})
}

func (s *steps) groups(context.Context) (string, error) {
	group := s.name + "-commits"
	listed, err := s.admin.ListConsumerGroups()
	if _, is := listed[group]; err != nil || !is {
		return "", fmt.Errorf("the group is not listed: %v %w", listed, err)
	}
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	if err != nil || described[0].State != "Empty" {
		return "", fmt.Errorf("described as %v, %w", described, err)
	}
	if err := errors.Join(s.admin.DeleteConsumerGroupOffset(group, group, 0), s.admin.DeleteConsumerGroup(s.name+"-group-range")); err != nil {
		return "", err
	}
	listed, err = s.admin.ListConsumerGroups()
	if _, is := listed[s.name+"-group-range"]; is {
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
	if err := s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	seen := &seen{distinct: map[string]bool{}}
	for range 2 {
		m, err := s.join(topic+"-readers", topic, sarama.NewBalanceStrategyRange(), seen)
		if err != nil {
			return err
		}
		defer m.stop()
	}
	p, err := sarama.NewAsyncProducer(s.bootstrap, idempotent(config()))
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(stop) }()
	n, err := produceUntil(p, topic, stop)
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

// produceUntil gives how many records were sent; all are acknowledged. The client is
// closed when each has its answer: one that closes gives up what it would send again.
func produceUntil(p sarama.AsyncProducer, topic string, stop <-chan struct{}) (n int, err error) {
	var answered sync.WaitGroup
	acked, failed := make(chan int, 1), make(chan error, 1)
	go func() {
		count := 0
		for range p.Successes() {
			if count++; count%200 == 0 {
				fmt.Println("acked", count)
			}
			answered.Done()
		}
		acked <- count
	}()
	go func() {
		var err error
		for e := range p.Errors() {
			err = e
			answered.Done()
		}
		failed <- err
	}()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-stop:
			answered.Wait()
			p.AsyncClose()
			return n, errors.Join(<-failed, equal("acknowledged", <-acked, n))
		case <-pace.C:
		}
		for range 10 {
			answered.Add(1)
			p.Input() <- &sarama.ProducerMessage{Topic: topic, Partition: int32(n % 3), Value: sarama.StringEncoder(strconv.Itoa(n))}
			n++
		}
	}
}
