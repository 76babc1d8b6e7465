package consul_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func quick(s configstore.Store, k configstore.Keeper) configstore.ViewConfig {
	return configstore.ViewConfig{Store: s, Keeper: k, CreateMesh: true, By: "test", RereadEvery: 50 * time.Millisecond,
		CallTimeout: consultest.Patience}
}

// run opens a view and runs it until the test ends.
func run(t *testing.T, s configstore.Store) *configstore.View {
	t.Helper()
	v, err := configstore.OpenView(t.Context(), quick(s, &configstore.MemoryKeeper{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { v.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return v
}

// With default deny the documented policy is enough for everything that a region
// and the commands do, and whatever is less is told, never taken for lost documents.
func TestACLs(t *testing.T) {
	agentNeeded(t)
	for _, name := range []string{"CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	agent := consultest.Start(t, consultest.Options{ACL: true})
	path := tokenFile(t, agent.TokenFor("rhumb-region", consultest.Policy(t, "")))
	s := open(t, consul.Config{Address: agent.Addr, TokenFile: path})
	v := run(t, s)
	w := v.Writer("admin")
	for _, region := range []rhumb.RegionName{"a", "b"} {
		if _, err := w.RegisterRegion(t.Context(), configstore.Region{Name: region, Geo: []string{"host:7650"}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	reg := s.Register([]consul.Service{{ID: "rhumb-kafka-a-0", Name: "rhumb-kafka", Address: "127.0.0.1", Port: 9092}}, 20*time.Millisecond, discard())
	if err := registerOnce(t, reg); err != nil {
		t.Errorf("the documented policy does not let services be registered: %v", err)
	}
	if err := reg.Deregister(t.Context()); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ token, want string }{
		"no token":         {"", "may not read all documents"},
		"unknown token":    {"6f0e1b6c-8a5d-4a8e-9c4e-3d1f5b2a7c91", "access denied"},
		"other keys":       {agent.TokenFor("other", `key_prefix "other/" { policy = "write" }`), "may not read all documents"},
		"a part of them":   {agent.TokenFor("part", `key_prefix "rhumb/v1/regions/a" { policy = "write" }`), "may not read all documents"},
		"all but one kind": {agent.TokenFor("hole", `key_prefix "rhumb/v1/" { policy = "write" } key_prefix "rhumb/v1/regions/" { policy = "deny" }`), "may not read all documents"},
	} {
		cfg := consul.Config{Address: agent.Addr}
		if c.token != "" {
			cfg.TokenFile = tokenFile(t, c.token)
		}
		_, err := open(t, cfg).List(t.Context(), configstore.Prefix)
		if !errors.Is(err, consul.ErrDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: list gives %v, want %q", name, err, c.want)
		}
	}
	reader := open(t, consul.Config{Address: agent.Addr, TokenFile: tokenFile(t, agent.TokenFor("read", `key_prefix "rhumb/v1/" { policy = "read" }`))})
	if _, err := configstore.NewWriter(reader, "reader").PutTenant(t.Context(), "t", func(*configstore.Tenant) error { return nil }); !errors.Is(err, consul.ErrDenied) {
		t.Errorf("a write with a token that may read: %v", err)
	}
	// A token that is taken away leaves the last good copy; the next one is used at once.
	if err := os.WriteFile(path, []byte("6f0e1b6c-8a5d-4a8e-9c4e-3d1f5b2a7c92"), 0o600); err != nil {
		t.Fatal(err)
	}
	consultest.Until(t, "the view is denied", func() bool {
		st := v.Status()
		return st.State == configstore.StateStoreDown && errors.Is(st.Err, consul.ErrDenied) && len(v.Regions()) == 2
	})
	if err := os.WriteFile(path, []byte(agent.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	consultest.Until(t, "the view is current", func() bool { return v.Status().State == configstore.StateCurrent })
}

// registerOnce runs a registration until it is done or refused.
func registerOnce(t *testing.T, r *consul.Registration) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	consultest.Until(t, "the registration is tried", func() bool { return r.Tried() })
	return r.Err()
}

// A folder that somebody made in Consul's pages is no document; what else lies under
// the prefix and is none is an error that names it.
func TestForeignKeys(t *testing.T) {
	agentNeeded(t)
	agent := consultest.Start(t, consultest.Options{})
	s := open(t, consul.Config{Address: agent.Addr})
	v := run(t, s)
	put := func(key, value string) {
		t.Helper()
		if _, err := agent.API().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put("rhumb/v1/regions/", "")
	put("rhumb/v10/x", "not ours")
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("rhumb/v1/notes", "buy milk")
	if err := v.Refresh(t.Context()); rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), "rhumb/v1/notes") {
		t.Fatalf("a key that is no document: %v", err)
	}
	if v.Mesh().UUID.IsZero() || v.Status().State != configstore.StateStoreDown {
		t.Fatalf("status %+v", v.Status())
	}
	if _, err := agent.API().KV().Delete("rhumb/v1/notes", nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A document that somebody deleted by hand is lost, not deleted.
	if _, err := agent.API().KV().Delete(configstore.MeshKey, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Refresh(t.Context()); !errors.Is(err, configstore.ErrWentBack) {
		t.Fatalf("a mesh that is gone: %v", err)
	}
	if done, err := v.Restore(t.Context(), "test", false); err != nil || len(done) != 1 {
		t.Fatalf("put back %v, %v", done, err)
	}
}

// A connection that dies without a word, watch and all, costs one call; then another
// connection is used and every change arrives.
func TestG85DeadConnectionIsReplaced(t *testing.T) {
	agentNeeded(t)
	agent := consultest.Start(t, consultest.Options{})
	line := consultest.NewLine(t, agent.Addr)
	s := open(t, consul.Config{Address: line.Addr})
	cfg := quick(s, &configstore.MemoryKeeper{})
	cfg.CallTimeout = time.Second
	var v *configstore.View
	consultest.Until(t, "the first call is answered in time", func() bool {
		var err error
		v, err = configstore.OpenView(t.Context(), cfg)
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { v.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	w := configstore.NewWriter(open(t, consul.Config{Address: agent.Addr}), "admin")
	for i, name := range []rhumb.Tenant{"one", "two", "three"} {
		line.Freeze()
		if _, err := w.PutTenant(t.Context(), name, func(*configstore.Tenant) error { return nil }); err != nil {
			t.Fatal(err)
		}
		consultest.Until(t, "the change arrives", func() bool { return len(v.Tenants()) == i+1 })
	}
}

// The services of a region come and go with it, and come back after the agent lost
// its memory.
func TestServicesOnARealAgent(t *testing.T) {
	agentNeeded(t)
	agent := consultest.Start(t, consultest.Options{})
	s := open(t, consul.Config{Address: agent.Addr})
	mine := []consul.Service{
		{ID: "rhumb-kafka-us-0", Name: "rhumb-kafka", Address: "127.0.0.1", Port: 9092, Tags: []string{"region=us", "mesh=m"}, Meta: map[string]string{"version": "v1"}},
		{ID: "rhumb-admin-us-1", Name: "rhumb-admin", Address: "127.0.0.1", Port: 8080, Tags: []string{"region=us"}, CheckURL: "http://127.0.0.1:8080/readyz"},
	}
	reg := s.Register(mine, 20*time.Millisecond, discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { reg.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	known := func(n int) func() bool {
		return func() bool {
			all, err := agent.API().Agent().ServicesWithFilter(`Service matches "^rhumb-"`)
			return err == nil && len(all) == n
		}
	}
	consultest.Until(t, "both services are there", known(2))
	consultest.Until(t, "the catalog has rhumb-kafka of region us", func() bool { // the agent tells it a moment later
		found, _, err := agent.API().Health().Service("rhumb-kafka", "region=us", true, nil)
		return err == nil && len(found) == 1 && found[0].Service.Port == 9092 && found[0].Service.Meta["version"] == "v1"
	})
	agent.Kill()
	consultest.Until(t, "the registration notices", func() bool { return reg.Err() != nil })
	agent.Restart()
	if err := agent.API().Agent().ServiceDeregister("rhumb-kafka-us-0"); err != nil {
		t.Fatal(err)
	}
	consultest.Until(t, "both services are there again", known(2))
	if err := reg.Deregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !known(0)() {
		t.Error("services are left after the end")
	}
}
