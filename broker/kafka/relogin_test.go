package kafka

import (
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/broker/sasl/sasltest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// pipeDoor is a listener without a socket.
func pipeDoor(s *Server, l Listener) *bound {
	return &bound{Listener: l, host: "h", port: 1, ln: noSocket{}, anonymous: s.anonymous(l.Namespace)}
}

type noSocket struct{ net.Listener }

func (noSocket) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// piped serves one connection without a socket, so that time can be virtual.
func piped(t *testing.T, s *Server, l Listener) *rawConn {
	client, server := net.Pipe()
	c := newConn(s, pipeDoor(s, l), server)
	done := make(chan struct{})
	go func() { defer close(done); c.run() }()
	t.Cleanup(func() { client.Close(); <-done })
	return &rawConn{h: &harness{TB: t}, nc: client}
}

func quietServer(t *testing.T, a Accounts, change ...func(*Config)) *Server {
	b, err := broker.New(broker.Config{Region: brokertest.New()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Broker: b, NodeID: testNode, Accounts: a}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A login that has run out ends the connection at its next request; a new one in
// time, or even late, lets it go on.
func TestLoginRunsOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAccounts(t)
		addUser(t, a, "alice", alicesPassword, rhumb.DefaultSpace)
		s := quietServer(t, a)
		door := Listener{SASL: &SASL{Mechanisms: sasl.Mechanisms(), Session: time.Minute}}
		late, silent := piped(t, s, door), piped(t, s, door)
		for _, c := range []*rawConn{late, silent} {
			if resp := c.login("alice", alicesPassword); resp.ErrorCode != codeNone || resp.SessionLifetimeMillis != 60_000 {
				t.Fatalf("%+v", resp)
			}
			ask[*kmsg.MetadataResponse](c, metadataRequest())
		}
		<-time.After(time.Minute - time.Millisecond)
		ask[*kmsg.MetadataResponse](silent, metadataRequest())
		<-time.After(time.Millisecond)
		late.login("alice", alicesPassword)
		ask[*kmsg.MetadataResponse](late, metadataRequest())
		go silent.nc.Write(frame(metadataRequest(), 1)) // it may be closed in the middle
		silent.closed()
	})
}

func TestNewLoginIsTheSameUsers(t *testing.T) {
	h, a := startSASL(t, time.Hour)
	for name, c := range map[string]struct {
		user, password string
		ok             bool
	}{
		"the same":              {"alice", alicesPassword, true},
		"a wrong password":      {"alice", "guess", false},
		"another user":          {"bob", "bob's", false},
		"another namespace":     {"alice@acme/shop", alicesPassword, false},
		"its namespace by name": {"alice@public/default", alicesPassword, false}, // it was not chosen by the first login
	} {
		conn := h.dial()
		conn.login("alice", alicesPassword)
		resp := conn.login(c.user, c.password)
		if got := resp.ErrorCode == codeNone; got != c.ok {
			t.Errorf("%s: %+v", name, resp)
		}
		if c.ok {
			ask[*kmsg.MetadataResponse](conn, metadataRequest())
		} else {
			conn.closed()
		}
	}
	other := h.dial()
	other.login("alice", alicesPassword)
	if resp := ask[*kmsg.SASLHandshakeResponse](other, handshakeOf(1, sasl.ScramSHA256)); resp.ErrorCode != codeIllegalSaslState {
		t.Errorf("another mechanism: %+v", resp)
	}
	other.closed()

	// A new password counts at the next login; until then the connection goes on.
	old := h.dial()
	old.login("alice", alicesPassword)
	v, err := scram.New(scram.SHA256, "new", scram.MinIterations)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.PutUser(t.Context(), "alice", func(u *configstore.User) error { u.Scram.Set(scram.SHA256, &v); return nil }); err != nil {
		t.Fatal(err)
	}
	ask[*kmsg.MetadataResponse](old, metadataRequest())
	if resp := old.login("alice", alicesPassword); resp.ErrorCode != codeSaslAuthenticationFailed {
		t.Errorf("the old password: %+v", resp)
	}
}

// Requests that were sent before a new login are answered as before it, in order.
func TestPipelinedRequestsAroundANewLogin(t *testing.T) {
	h, _ := startSASL(t, time.Hour)
	h.topic("t", 1, nil)
	c := h.dial()
	c.login("alice", alicesPassword)
	fetch := fetchRequest("t", 0)
	fetch.MaxWaitMillis = 50
	first := c.send(fetch)
	second := c.send(handshakeOf(1, sasl.Plain))
	third := c.send(authenticateOf(sasltest.Plain("alice", alicesPassword)))
	fourth := c.send(metadataRequest("t"))
	for _, id := range []int32{first, second, third, fourth} {
		c.receive(id)
	}
}

// A stranger is not waited for as long as a user who rests, and talking does not
// make it stay longer.
func TestStrangersDoNotStay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, newAccounts(t))
		began := time.Now()
		c := piped(t, s, Listener{SASL: &SASL{Mechanisms: []string{sasl.Plain}}})
		for range 3 {
			<-time.After(9 * time.Second)
			ask[*kmsg.ApiVersionsResponse](c, kmsg.NewPtrApiVersionsRequest())
		}
		c.closed()
		if stayed := time.Since(began); stayed != DefaultIOTimeout {
			t.Errorf("it stayed for %v", stayed)
		}
	})
}

// A failed login waits before it is answered, so that guessing takes time.
func TestFailedLoginWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, newAccounts(t))
		c := piped(t, s, Listener{SASL: &SASL{Mechanisms: sasl.Mechanisms()}})
		began := time.Now()
		if resp := c.login("alice", "guess"); resp.ErrorCode != codeSaslAuthenticationFailed {
			t.Fatalf("%+v", resp)
		}
		if took := time.Since(began); took != DefaultFailedLoginDelay {
			t.Errorf("answered after %v", took)
		}
		c.closed()
	})
}
