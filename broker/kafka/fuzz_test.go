package kafka

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// fuzzServer is a server on a region in memory with one topic and no socket.
func fuzzServer(f *testing.F) (*Server, broker.TopicInfo) {
	h := &harness{TB: &testing.T{}, region: brokertest.New()}
	b, err := broker.New(broker.Config{Region: h.region, MaxPartitions: 10})
	if err != nil {
		f.Fatal(err)
	}
	info, err := b.CreateTopic(f.Context(), broker.TopicSpec{Topic: mustTopic(h.TB, "t"), Configs: map[string]string{"validate": "full"}})
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(Config{Broker: b, NodeID: testNode, MaxRequest: 1 << 20, MaxSmallRequest: 64 << 10, RequestBudget: 8 << 20, FetchBudget: 4 << 20})
	if err != nil {
		f.Fatal(err)
	}
	return s, info
}

// FuzzConnection sends any bytes to a connection: what the handlers of all APIs
// answer is framed, everything that was held is given back, nothing panics.
func FuzzConnection(f *testing.F) {
	s, info := fuzzServer(f)
	h := &harness{TB: &testing.T{}, broker: s.broker}
	for _, a := range offered() {
		for _, v := range []int16{a.min, a.max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			fill(h, req)
			f.Add(frame(req, 1))
			f.Add(append(frame(metadataRequest("t"), 1), frame(req, 2)...))
		}
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 10, 0, 18, 0, 99, 0, 0, 0, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		c := newConn(s, &bound{host: "h", port: 1, anonymous: s.anonymous(rhumb.Space{})}, server)
		done := make(chan struct{})
		go func() { defer close(done); c.run() }()
		answers := make(chan []byte, 1)
		go func() { b, _ := io.ReadAll(client); answers <- b }()
		client.SetWriteDeadline(time.Now().Add(5 * time.Second))
		client.Write(data) // the server may close before it has read all
		c.stopPolls()
		c.drain()
		<-done
		client.Close()
		for b := <-answers; len(b) > 0; {
			d := decoder{b: b}
			if n := d.int32(); n < 4 || d.bytes(int(n)) == nil {
				t.Fatalf("answer of %d bytes in %d", n, len(b))
			}
			b = d.b
		}
		if s.requests.free != s.cfg.RequestBudget || s.fetches.free != s.cfg.FetchBudget {
			t.Fatalf("budgets: %d and %d free", s.requests.free, s.fetches.free)
		}
		if _, ok := s.broker.TopicByID(info.ID); !ok { // a DeleteTopics got through
			info, _ = s.broker.CreateTopic(t.Context(), broker.TopicSpec{Topic: info.Topic})
		}
	})
}

// FuzzProduceDecoder compares the decoder that is written by hand with the
// codec's: what one accepts the other does, and both read the same.
func FuzzProduceDecoder(f *testing.F) {
	s, _ := fuzzServer(f)
	for v := int16(3); v <= 13; v++ {
		req := produceRequestOf("t", 1, oneRecord(), nil)
		req.Version = v
		f.Add(v, req.AppendTo(nil))
		req.TransactionID = ptr("tx")
		f.Add(v, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, data []byte) {
		if version < 3 || version > 13 {
			return
		}
		want := kmsg.NewPtrProduceRequest()
		want.Version = version
		wantErr := want.ReadFrom(data)
		got, err := decodeProduce(&request{conn: &conn{server: s}, api: apis[produceKey], version: version, flexible: version >= 9, body: data})
		if err != nil {
			if wantErr == nil && entriesOf(want) <= maxProduceEntries && !hasNegativeLength(want, data) {
				t.Fatalf("the codec reads it: %v", err)
			}
			return
		}
		if wantErr != nil {
			return // the codec is stricter about sizes that cannot be
		}
		if got.acks != want.Acks || got.transactional != (want.TransactionID != nil) || len(got.topics) != len(want.Topics) {
			t.Fatalf("%+v\n%+v", got, want)
		}
		for i := range want.Topics {
			compareTopics(t, &got.topics[i], &want.Topics[i])
		}
	})
}

func compareTopics(t *testing.T, got *produceTopic, want *kmsg.ProduceRequestTopic) {
	if got.name != want.Topic || got.id != want.TopicID || len(got.parts) != len(want.Partitions) {
		t.Fatalf("%+v\n%+v", got, want)
	}
	for j := range want.Partitions {
		p := want.Partitions[j]
		if got.parts[j].index != p.Partition || !bytes.Equal(got.parts[j].records, p.Records) {
			t.Fatalf("%+v\n%+v", got.parts[j], p)
		}
	}
}

func entriesOf(req *kmsg.ProduceRequest) int {
	n := len(req.Topics)
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// hasNegativeLength: the codec reads a length below -1 as null, which encodes
// differently; we refuse it.
func hasNegativeLength(req *kmsg.ProduceRequest, data []byte) bool {
	return !reflect.DeepEqual(req.AppendTo(nil), data)
}
