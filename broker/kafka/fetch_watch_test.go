package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/bubble"
)

// manyParts opens a session over all partitions of a topic.
func manyParts(c *rawConn, topic string, n int) *kmsg.FetchRequest {
	c.h.Helper()
	req := fetchRequest(topic, 0)
	for i := 1; i < n; i++ {
		p := req.Topics[0].Partitions[0]
		p.Partition = int32(i)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	req.SessionEpoch, req.MaxWaitMillis = sessionInitial, 1
	first := c.fetch(req)
	if first.SessionID == 0 {
		c.h.Fatalf("%+v", first)
	}
	req.SessionID, req.SessionEpoch, req.Topics = first.SessionID, 0, nil
	return req
}

// again sends the next fetch of a session, and gives which partitions had records.
func (c *rawConn) again(req *kmsg.FetchRequest) string {
	c.h.Helper()
	req.SessionEpoch++
	resp := c.fetch(req)
	req.Topics, req.ForgottenTopics = nil, nil
	if resp.ErrorCode != 0 {
		c.h.Fatalf("%+v", resp)
	}
	said := ""
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			if p.ErrorCode != 0 {
				said += fmt.Sprintf(" %d:error", p.Partition)
			} else {
				said += fmt.Sprintf(" %d:%d", p.Partition, len(p.RecordBatches))
			}
		}
	}
	return said
}

func moved(topic string, partition int32, offset int64) []kmsg.FetchRequestTopic {
	t := fetchRequest(topic, offset).Topics
	t[0].Partitions[0].Partition = partition
	return t
}

// containsPart reports whether what was said of partitions holds what is said of one.
func containsPart(said, part string) bool {
	return slices.Contains(strings.Fields(said), strings.TrimSpace(part))
}

func (h *harness) appendTo(topic string, partition int32, b brokertest.Batch) {
	h.Helper()
	req := produceRequestOf(topic, -1, b.Bytes())
	req.Topics[0].Partitions[0].Partition = partition
	if p := ask[*kmsg.ProduceResponse](h.dial(), req).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		h.Fatalf("append: code %d", p.ErrorCode)
	}
}

// TestWatchEndsWithItsSession: a session that is closed, or that others push out, has
// nobody signalled any more.
func TestWatchEndsWithItsSession(t *testing.T) {
	h := start(t, func(_ *broker.Config, c *Config) { c.MaxSessions = 1 })
	h.topic("t", 2*watchedFrom, nil)
	c := h.dial()
	req := manyParts(c, "t", 2*watchedFrom)
	c.again(req)
	if n := h.region.Waiters(); n != 2*watchedFrom {
		t.Fatalf("%d partitions are watched", n)
	}
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{1, 2}}}
	c.again(req)
	if n := h.region.Waiters(); n != 2*watchedFrom-2 {
		t.Fatalf("after two were forgotten, %d are watched", n)
	}
	req = manyParts(c, "t", 2*watchedFrom) // pushes the other out
	c.again(req)
	if n := h.region.Waiters(); n != 2*watchedFrom {
		t.Fatalf("of two sessions, one of them over, %d are watched", n)
	}
	req.SessionEpoch = sessionless
	req.SessionEpoch-- // again counts
	c.again(req)
	if n := h.region.Waiters(); n != 0 {
		t.Fatalf("after the end %d are watched", n)
	}
}

// TestSessionOfManyPartitions: one that is watched gives what it would give if it looked
// at all: what came, until the client has taken it, what did not fit, and deletions.
func TestSessionOfManyPartitions(t *testing.T) { both(t, sessionOfManyPartitions) }

func sessionOfManyPartitions(t *testing.T, h *harness) {
	const n = 2 * watchedFrom
	info := h.topic("t", n, nil)
	c := h.dial()
	req := manyParts(c, "t", n)
	said := func(want string) {
		t.Helper()
		if got := c.again(req); got != want {
			t.Fatalf("got%s, want%s", got, want)
		}
	}
	h.appendTo("t", 7, brokertest.Batch{Times: []int64{1}})
	size := 0
	if _, err := fmt.Sscanf(c.again(req), " 7:%d", &size); err != nil || size == 0 {
		t.Fatalf("the first record: %d bytes, %v", size, err)
	}
	one := func(p int) string { return fmt.Sprintf(" %d:%d", p, size) }
	said(one(7)) // the client did not take it
	req.Topics = moved("t", 7, 1)
	said("")
	for _, p := range []int{3, 99, 7} {
		h.appendTo("t", int32(p), brokertest.Batch{Times: []int64{1}})
	}
	req.MaxBytes = int32(size)
	given := map[string]bool{}
	for range 3 {
		got := c.again(req)
		for _, p := range []int{3, 99, 7} {
			if m := one(p); containsPart(got, m) {
				given[m] = true
				req.Topics = append(req.Topics, moved("t", int32(p), map[int]int64{3: 1, 99: 1, 7: 2}[p])...)
			}
		}
	}
	if len(given) != 3 {
		t.Fatalf("of three that did not fit at once came %v", given)
	}
	said("")
	req.MaxBytes = 1 << 20
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{5}}}
	said("")
	h.appendTo("t", 5, brokertest.Batch{Times: []int64{1}})
	h.appendTo("t", 6, brokertest.Batch{Times: []int64{1}})
	said(one(6))
	if err := h.broker.DeleteTopic(h.ctx(), info); err != nil {
		t.Fatal(err)
	}
	if got := c.again(req); !containsPart(got, " 6:error") || containsPart(got, " 5:error") {
		t.Fatalf("of a deleted topic it says%s", got)
	}
}

// TestRoundLooksAtFewAtATime: a session of many partitions looks at each of them once in
// wholeEvery, at few in each fetch, and at all that are due if no fetch came for long. One
// that left is not looked at, one that came is in the next round.
func TestRoundLooksAtFewAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const n, pause = 1000, 10 * time.Millisecond
		sess := newSession(false)
		for i := range int32(n) {
			sess.part(partKey{topic: "t", partition: i})
		}
		w := newWatched(&broker.Broker{})
		w.begin(sess)
		fetches := func(length time.Duration, most int) map[int32]int {
			t.Helper()
			looks := map[int32]int{}
			for end := time.Now().Add(length); time.Now().Before(end); {
				<-time.After(pause)
				w.goOn(sess)
				got := w.take()
				if len(got) > most {
					t.Fatalf("a fetch looks at %d partitions, at most %d are due", len(got), most)
				}
				for _, p := range got {
					looks[p.key.partition]++
				}
			}
			return looks
		}
		few := n*int(pause)/int(wholeEvery) + 1
		for range 3 {
			if looks := fetches(wholeEvery, few); len(looks) != n || looks[0] != 1 {
				t.Fatalf("in a round %d of %d are looked at, the first one %d times", len(looks), n, looks[0])
			}
		}
		w.forget(sess.part(partKey{topic: "t", partition: 7}))
		<-time.After(10 * wholeEvery)
		w.goOn(sess)
		if got := w.take(); len(got) != n-1 {
			t.Fatalf("after a long pause %d are looked at", len(got))
		}
		sess.part(partKey{topic: "t", partition: n})
		fetches(wholeEvery, few)
		if looks := fetches(wholeEvery, few); looks[n] != 1 || looks[7] != 0 {
			t.Fatalf("the new one is looked at %d times, the one that left %d", looks[n], looks[7])
		}
	})
}
