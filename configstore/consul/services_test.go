package consul

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// agentFake is an agent that knows services, and forgets them on demand.
type agentFake struct {
	fake
	mu    sync.Mutex
	known map[string]bool
	down  bool
}

// set changes what the agent knows, or whether it answers.
func (a *agentFake) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func newAgentFake() *agentFake {
	a := &agentFake{known: map[string]bool{}}
	a.answer = func(_ int, r *http.Request) (*http.Response, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		id, ok := strings.CutPrefix(r.URL.Path, "/v1/agent/service/deregister/")
		switch {
		case a.down:
			return response(500, 0, "down"), nil
		case ok && a.known[id]:
			delete(a.known, id)
			return response(200, 0, ""), nil
		case ok:
			return response(404, 0, "Unknown service ID"), nil
		case r.URL.Path == "/v1/agent/service/register":
			a.known["rhumb-kafka-us-0"] = true
			return response(200, 0, ""), nil
		case r.URL.Query().Get("filter") == `ID == "rhumb-kafka-us-0"` && a.known["rhumb-kafka-us-0"]:
			return response(200, 0, `{"rhumb-kafka-us-0": {"ID":"rhumb-kafka-us-0","Service":"rhumb-kafka","Address":"127.0.0.1","Port":9092,"Tags":["region=us"]}}`), nil
		case r.URL.Path == "/v1/agent/services":
			return response(200, 0, "{}"), nil
		}
		return response(404, 0, "no such call"), nil
	}
	return a
}

// puts counts how often the agent was told of the service.
func (a *agentFake) puts() (n int) {
	for _, r := range a.seen() {
		if r.URL.Path == "/v1/agent/service/register" {
			n++
		}
	}
	return n
}

// An agent that forgets is told again, one that knows is left alone, and after the
// end it is told no more.
func TestServicesAreRegisteredAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAgentFake()
		s := withFake(t, Config{}, &a.fake)
		r := s.Register([]Service{{ID: "rhumb-kafka-us-0", Name: "rhumb-kafka", Address: "127.0.0.1", Port: 9092, Tags: []string{"region=us"}}}, time.Minute, quiet())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		<-time.After(10 * time.Minute)
		if a.puts() != 1 || r.Err() != nil {
			t.Errorf("registered %d times in ten minutes, %v", a.puts(), r.Err())
		}
		a.set(func() { clear(a.known) })
		<-time.After(2 * time.Minute)
		if a.puts() != 2 {
			t.Errorf("registered %d times after the agent forgot", a.puts())
		}
		a.set(func() { a.down = true })
		<-time.After(2 * time.Minute)
		if rhumb.KindOf(r.Err()) != rhumb.KindUnavailable {
			t.Errorf("while the agent is down: %v", r.Err())
		}
		a.set(func() { a.down = false })
		<-time.After(2 * time.Minute)
		if r.Err() != nil {
			t.Errorf("after the agent came back: %v", r.Err())
		}
		for range 2 {
			if err := r.Deregister(t.Context()); err != nil {
				t.Error(err)
			}
		}
		<-time.After(5 * time.Minute)
		if len(a.known) != 0 || a.puts() != 2 {
			t.Errorf("after the end the agent knows %v, told %d times", a.known, a.puts())
		}
		cancel()
		<-done
	})
}

// While an agent hangs, who asks how the registration stands is answered at once: a
// region's health is asked for by whoever kills processes that do not answer.
func TestHangingAgentHoldsNoHealthUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		r := withFake(t, Config{}, f).Register([]Service{{ID: "rhumb-kafka-us-0", Name: "rhumb-kafka"}}, time.Minute, quiet())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		began := time.Now()
		if err, tried := r.Err(), r.Tried(); err != nil || tried || time.Since(began) != 0 {
			t.Errorf("during the first call: %v, tried %t, after %s", err, tried, time.Since(began))
		}
		<-time.After(callTime)
		synctest.Wait()
		if r.Err() == nil || !r.Tried() {
			t.Errorf("after it: %v, tried %t", r.Err(), r.Tried())
		}
		cancel()
		<-done
	})
}
