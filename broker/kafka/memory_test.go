package kafka

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/offheap"
)

// Large requests that stall before their last byte hold what is reserved for them and
// hardly more: no garbage of rooms that grew, and nothing when they are gone.
func TestI9StalledRequestsHoldTheirBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size, budget = 20 << 20, 64 << 20
		s := quietServer(t, nil, func(c *Config) { c.MaxRequest, c.RequestBudget = 32<<20, budget })
		if _, err := s.broker.CreateTopic(t.Context(), broker.TopicSpec{Topic: mustTopic(t, "t"), Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		body := frame(produceRequestOf("t", -1, make([]byte, size)), 1)
		clients := make([]*rawConn, 4)
		mapped := offheap.Held()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		last := make(chan struct{})
		for i := range clients {
			clients[i] = piped(t, s, Listener{})
			go func() {
				clients[i].nc.Write(body[:len(body)-1]) // those without room are read later
				<-last
				clients[i].nc.Write(body[len(body)-1:])
			}()
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		held, heap := offheap.Held()-mapped, int64(after.TotalAlloc-before.TotalAlloc)
		if reserved := budget - left(s.requests); reserved < 2*size || held+heap > reserved+reserved/2 {
			t.Errorf("%d bytes are reserved, %d of the system and %d of the heap were taken", reserved, held, heap)
		}
		close(last)
		for _, c := range clients {
			resp := decodeAnswer[*kmsg.ProduceResponse](c, produceRequestOf("t", -1), c.receive(1))
			if resp.Topics[0].Partitions[0].ErrorCode == 0 {
				t.Error("garbage was stored")
			}
		}
		synctest.Wait()
		if left(s.requests) != budget || offheap.Held() != mapped {
			t.Errorf("%d bytes of the budget and %d of the system are not given back", budget-left(s.requests), offheap.Held()-mapped)
		}
	})
}
