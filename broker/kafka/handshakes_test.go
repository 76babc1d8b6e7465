package kafka

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

// Handshakes that never go on end after a while, and at once when so many are under
// way that somebody else would have to wait: a client that does its handshake gets in.
func TestI9SlowHandshakesKeepNobodyOut(t *testing.T) {
	cert, _ := selfSigned(t)
	bubble.Test(t, func(t *testing.T) {
		s := quietServer(t, nil)
		conf := &tls.Config{Certificates: []tls.Certificate{cert}}
		open := func() (net.Conn, chan struct{}) {
			client, server := net.Pipe()
			c := newConn(s, pipeDoor(s, Listener{TLS: conf}), tls.Server(server, conf))
			done := make(chan struct{})
			go func() { defer close(done); c.run() }()
			synctest.Wait()
			return client, done
		}
		ends := make([]chan struct{}, maxHandshakes)
		for i := range ends {
			_, ends[i] = open()
		}
		select {
		case <-ends[0]:
			t.Fatal("a handshake ended though there was room")
		default:
		}
		nc, over := open()
		<-ends[0] // the oldest made room
		secure := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
		if err := secure.Handshake(); err != nil {
			t.Fatalf("who goes on: %v", err)
		}
		select {
		case <-ends[1]:
			t.Error("one more had to go")
		default:
		}
		if n := s.Stats().Refused; n != 1 {
			t.Errorf("%d were refused, want 1", n)
		}
		began := time.Now()
		for _, end := range ends[1:] {
			<-end
		}
		if took := time.Since(began); took > DefaultIOTimeout {
			t.Errorf("slow handshakes took %v", took)
		}
		if s.handshakes.open.Len() != 0 {
			t.Errorf("%d places are not given back", s.handshakes.open.Len())
		}
		nc.Close()
		<-over
	})
}
