package kafka

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/broker/sasl/sasltest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/scram"
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
	a := newAccounts(f)
	_, err = a.PutUser(f.Context(), "alice", func(u *configstore.User) error {
		v := scram.Decoy(scram.SHA256, []byte("nobody knows"), "alice")
		u.Scram.Set(scram.SHA256, &v)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	s, err := New(Config{Broker: b, NodeID: testNode, MaxRequest: 1 << 20, MaxSmallRequest: 64 << 10, RequestBudget: 8 << 20, FetchBudget: 4 << 20,
		Accounts: a, FailedLoginDelay: 1})
	if err != nil {
		f.Fatal(err)
	}
	return s, info
}

// converse sends bytes to a connection and gives what it answers. All that it
// held is given back.
func converse(t *testing.T, s *Server, at *bound, data []byte) (*conn, []byte) {
	client, server := net.Pipe()
	c := newConn(s, at, server)
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
	if r, f, a := left(s.requests), left(s.fetches)+left(s.spare), left(s.answers); r != s.cfg.RequestBudget || f != s.cfg.FetchBudget+max(s.cfg.FetchBudget/8, broker.ReserveShare) || a != s.cfg.AnswerBudget {
		t.Fatalf("budgets: %d, %d and %d free", r, f, a)
	}
	return c, <-answers
}

// framed checks that bytes are whole answers.
func framed(t *testing.T, b []byte) {
	for len(b) > 0 {
		d := decoder{b: b}
		if n := d.int32(); n < 4 || d.bytes(int(n)) == nil {
			t.Fatalf("answer of %d bytes in %d", n, len(b))
		}
		b = d.b
	}
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
	at := pipeDoor(s, Listener{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, answers := converse(t, s, at, data)
		framed(t, answers)
		if _, ok := s.broker.TopicByID(info.ID); !ok { // a DeleteTopics got through
			info, _ = s.broker.CreateTopic(t.Context(), broker.TopicSpec{Topic: info.Topic})
		}
	})
}

// FuzzRequest sends a request of each API at each version with any body, by a
// caller who may do everything, so that it is the handlers that are tried. The
// seeds are whole requests of every API at every version.
func FuzzRequest(f *testing.F) {
	s, info := fuzzServer(f)
	h := &harness{TB: &testing.T{}, broker: s.broker}
	all := offered()
	for i, a := range all {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			fill(h, req)
			f.Add(uint8(i), uint8(v-a.min), req.AppendTo(nil))
		}
	}
	at := pipeDoor(s, Listener{})
	at.anonymous.admin = true
	f.Fuzz(func(t *testing.T, which, version uint8, body []byte) {
		a := all[int(which)%len(all)]
		v := a.min + int16(version)%(a.max-a.min+1)
		b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(a.key))
		b = binary.BigEndian.AppendUint16(b, uint16(v))
		b = append(b, 0, 0, 0, 1, 0xff, 0xff)
		if v >= a.flexible {
			b = append(b, 0)
		}
		b = append(b, body...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		_, answers := converse(t, s, at, b)
		framed(t, answers)
		if _, ok := s.broker.TopicByID(info.ID); !ok {
			info, _ = s.broker.CreateTopic(t.Context(), broker.TopicSpec{Topic: info.Topic})
		}
	})
}

// FuzzLogin sends any three pieces to a listener that asks who is there, and where
// nobody knows a password: whatever comes, nobody is let in.
func FuzzLogin(f *testing.F) {
	s, _ := fuzzServer(f)
	client := sasltest.New(sasl.ScramSHA256, "alice", "guess")
	versions := kmsg.NewPtrApiVersionsRequest()
	raw := func(token []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
	}
	for _, m := range sasl.Mechanisms() {
		f.Add(frame(handshakeOf(1, m), 1), frame(authenticateOf(client.First()), 2), frame(metadataRequest("t"), 3))
		f.Add(frame(handshakeOf(0, m), 1), raw(client.First()), raw([]byte("c=biws,r=x,p=AAAA")))
		f.Add(frame(handshakeOf(1, m), 1), frame(authenticateOf(sasltest.Plain("alice", "guess")), 2), frame(metadataRequest("t"), 3))
		f.Add(frame(handshakeOf(0, m), 1), raw(sasltest.Plain("alice", "guess")), frame(metadataRequest("t"), 3))
	}
	f.Add(frame(versions, 1), frame(handshakeOf(1, "x"), 2), frame(handshakeOf(1, sasl.Plain), 3))
	f.Add(frame(authenticateOf(nil), 1), frame(produceRequestOf("t", 1, oneRecord()), 2), []byte{})
	at := pipeDoor(s, Listener{SASL: &SASL{Mechanisms: sasl.Mechanisms()}})
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		c, _ := converse(t, s, at, slices.Concat(first, second, third))
		if c.auth.state == authOpen || c.auth.login != (sasl.Login{}) || c.loggedIn() != "" {
			t.Fatalf("logged in: %+v", c.auth.login)
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
