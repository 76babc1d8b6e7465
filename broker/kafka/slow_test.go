package kafka

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/bubble"
)

func left(b *budget) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}

// A client that asks and asks and reads no answer holds bounded memory, is closed
// when its time is over, and holds nobody else up meanwhile.
func TestI9ClientThatReadsNothingIsClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil)
		if _, err := s.broker.CreateTopic(t.Context(), broker.TopicSpec{Topic: mustTopic(t, "wide"), Partitions: 2000}); err != nil {
			t.Fatal(err)
		}
		mute, other := piped(t, s, Listener{}), piped(t, s, Listener{})
		began := time.Now()
		sent := make(chan int)
		go func() {
			n := 0
			for {
				if _, err := mute.nc.Write(frame(metadataRequest("wide"), int32(n))); err != nil {
					sent <- n
					return
				}
				n++
			}
		}()
		synctest.Wait() // until everybody waits for somebody
		one := len(ask[*kmsg.MetadataResponse](other, metadataRequest("wide")).AppendTo(nil))
		synctest.Wait()
		used := s.cfg.AnswerBudget - left(s.answers)
		if used == 0 || used > int64(maxQueued+2*one) {
			t.Errorf("%d bytes of answers wait, at most %d and two of %d", used, maxQueued, one)
		}
		n := <-sent
		if took := time.Since(began); took < DefaultIOTimeout || took > 2*DefaultIOTimeout {
			t.Errorf("closed after %v", took)
		}
		synctest.Wait()
		if left(s.answers) != s.cfg.AnswerBudget || left(s.requests) != s.cfg.RequestBudget {
			t.Errorf("%d and %d bytes are not given back", s.cfg.AnswerBudget-left(s.answers), s.cfg.RequestBudget-left(s.requests))
		}
		t.Logf("%d requests of a mute client were read", n)
		ask[*kmsg.MetadataResponse](other, metadataRequest("wide"))
	})
}

// When the node's room for answers is used up, a connection waits for its share,
// and ends if it does not come.
func TestAnswersOfTheNodeAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil, func(c *Config) { c.AnswerBudget = 1000 })
		if !s.answers.TryAcquire(990) {
			t.Fatal("no budget")
		}
		waits := piped(t, s, Listener{})
		id := waits.send(metadataRequest())
		synctest.Wait()
		s.answers.Release(990)
		waits.receive(id)
		synctest.Wait()
		if !s.answers.TryAcquire(990) {
			t.Fatal("the answer's room was not given back")
		}
		ends := piped(t, s, Listener{})
		ends.send(metadataRequest())
		ends.closed()
		s.answers.Release(990)
	})
}

// A request that comes byte by byte has as long as one that does not come; then
// its connection ends.
func TestI9HalfARequestIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil)
		began := time.Now()
		c := piped(t, s, Listener{})
		whole := frame(metadataRequest("t"), 1)
		told := make(chan struct{})
		go func() {
			defer close(told)
			for i := range whole { // a minute for all of it
				if _, err := c.nc.Write(whole[i : i+1]); err != nil {
					return
				}
				<-time.After(time.Minute / time.Duration(len(whole)))
			}
		}()
		c.closed()
		if took := time.Since(began); took > DefaultIOTimeout+time.Minute/8 {
			t.Errorf("closed after %v", took)
		}
		<-told
		if left(s.requests) != s.cfg.RequestBudget {
			t.Error("what it held is not given back")
		}
	})
}

// A connection that rests is closed in the end.
func TestIdleConnectionIsClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil, func(c *Config) { c.IdleTimeout = time.Hour })
		c := piped(t, s, Listener{})
		c.nc.SetDeadline(time.Time{})
		<-time.After(time.Hour - time.Second)
		ask[*kmsg.MetadataResponse](c, metadataRequest())
		began := time.Now()
		c.closed()
		if rested := time.Since(began); rested != time.Hour {
			t.Errorf("closed after %v", rested)
		}
	})
}

// begun begins a request of n bytes and sends so much of it.
func (c *rawConn) begun(key int16, n, sent int) {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = append(b, 0, 3, 0, 0, 0, 0, 0xff, 0xff)                        // version, correlation id, no client id
	_, _ = c.nc.Write(append(b, make([]byte, max(0, sent-len(b)))...)) // the server may close meanwhile
}

// Connections that begin requests and do not go on hold up nobody: neither many that
// only say that much will come, nor few of which nearly all came.
func TestI9HalfOpenRequestsHoldNobodyUp(t *testing.T) {
	for name, half := range map[string]struct {
		key            int16
		clients        int
		announced, out int
	}{
		"many that say much":     {produceKey, 600, 90 << 20, 14},
		"many that say metadata": {int16(3), 600, 1 << 20, 14},
		"few that sent much":     {produceKey, 5, 90 << 20, 63 << 20},
		"some that sent most":    {int16(3), 70, 1 << 20, 1<<20 - 10},
		"many that sent little":  {int16(3), 1000, 60 << 10, 59 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := quietServer(t, nil)
				for range half.clients {
					c := piped(t, s, Listener{})
					go c.begun(half.key, half.announced, half.out)
				}
				synctest.Wait()
				began := time.Now()
				ask[*kmsg.MetadataResponse](piped(t, s, Listener{}), metadataRequest())
				if took := time.Since(began); took > 2*stallTime {
					t.Errorf("a small request was answered after %v", took)
				}
				large := kmsg.NewPtrMetadataRequest()
				large.Version = 9
				large.Topics = make([]kmsg.MetadataRequestTopic, 20_000)
				for i := range large.Topics {
					large.Topics[i].Topic = new("no such topic")
				}
				ask[*kmsg.MetadataResponse](piped(t, s, Listener{}), large)
				if took := time.Since(began); took > 4*stallTime {
					t.Errorf("a large request was answered after %v", took)
				}
			})
		})
	}
}

// While nobody waits for room a slow client has its time.
func TestSlowRequestHasItsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil)
		c := piped(t, s, Listener{})
		whole := frame(metadataRequest("t"), 1)
		for i := range whole {
			if _, err := c.nc.Write(whole[i : i+1]); err != nil {
				t.Fatal(err)
			}
			<-time.After(DefaultIOTimeout * 9 / 10 / time.Duration(len(whole)))
		}
		c.receive(1)
	})
}
