package consul_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/configstoretest"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
)

// agentNeeded skips a test that starts a real agent where tests have to be quick.
func agentNeeded(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real Consul takes its time")
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, cfg consul.Config) *consul.Store {
	t.Helper()
	s, err := consul.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestConsulContract runs the contract of a configuration store against real
// agents: one for all tests, each behind a prefix of its own, and one more for each
// test that kills it or takes it back.
func TestConsulContract(t *testing.T) {
	agentNeeded(t)
	shared := consultest.Start(t, consultest.Options{})
	configstoretest.Run(t, func(t *testing.T, alone bool) configstoretest.Backend {
		agent := shared
		if alone {
			agent = consultest.Start(t, consultest.Options{})
		}
		proxy := consultest.NewProxy(t, agent.Addr)
		prefix := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r == '/' {
				return r
			}
			return '-'
		}, strings.ToLower(t.Name()))
		return configstoretest.Backend{
			Open: func(t *testing.T) configstore.Store {
				return open(t, consul.Config{Address: proxy.Addr, Prefix: prefix, WaitTime: 5 * time.Second})
			},
			SetDown: func(down bool) {
				if down {
					agent.Kill()
				} else {
					agent.Restart()
				}
			},
			SetSilent: proxy.SetSilent,
			Backup:    agent.Snapshot,
		}
	})
}
