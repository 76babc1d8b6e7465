package process

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
)

// slow skips what starts a Consul and three regions where tests have to be quick.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real Consul and real regions take their time")
	}
}

// comesTo runs a command that asks the first region until it exits with the code, and
// gives what it printed on both streams.
func (m *Mesh) comesTo(code int, args ...string) string {
	m.t.Helper()
	var out string
	Until(m.t, "rhumb "+strings.Join(args, " "), func() bool {
		res := m.Run(args...)
		out = res.Stdout + res.Stderr
		return res.Code == code
	})
	return out
}

// shows runs a command that asks the first region until it exits with the code and
// prints all of the words.
func (m *Mesh) shows(code int, words []string, args ...string) {
	m.t.Helper()
	var out string
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Logf("rhumb %s at last:\n%s", strings.Join(args, " "), out)
		}
	})
	Until(m.t, fmt.Sprintf("rhumb %s exits with %d and shows %q", strings.Join(args, " "), code, words), func() bool {
		res := m.Run(args...)
		out = res.Stdout + res.Stderr
		return res.Code == code && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) })
	})
}

// services counts the healthy instances of a service in Consul, those of one region
// if it is given. It gives -1 while Consul does not tell: it may have no leader yet.
func (m *Mesh) services(name, region string) int {
	m.t.Helper()
	tag := ""
	if region != "" {
		tag = "region=" + region
	}
	found, _, err := m.Consul.API().Health().Service(name, tag, true, nil)
	if err != nil {
		return -1
	}
	return len(found)
}

// namespaceFile writes a namespace's document.
func (m *Mesh) namespaceFile(text string) string {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "namespace.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// Consul is killed for the whole of a test in which regions are killed, stopped and
// started under traffic: messages flow, restarts work, changes are refused with what
// to do, and say so. When it comes back, so do changes.
func TestI5ConsulIsKilledWhileRegionsRestart(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us", "eu", "ap")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu", "ap")
	consultest.Until(t, "the services are registered", func() bool {
		return m.services("rhumb-kafka", "") == 3 && m.services("rhumb-admin", "") == 3 && m.services("rhumb-kafka", "eu") == 1
	})
	m.comesTo(0, "config", "status")

	m.note("kill -9 consul")
	m.Consul.Kill()
	tr.Progress(50, "us", "eu", "ap")
	m.Kill("eu")
	m.Restart("eu")
	m.Region("ap").Process().Signal(syscall.SIGTERM)
	if code := m.Region("ap").Process().Wait(); code != 0 {
		t.Errorf("ap exits with %d after SIGTERM while Consul is down", code)
	}
	m.Restart("ap")
	m.Kill("us")
	m.Restart("us")
	tr.Progress(100, "us", "eu", "ap")
	m.shows(1, []string{"store down", m.Consul.Addr, "connection refused"}, "config", "status")
	for _, r := range m.Regions {
		if code := Ready(r.Admin); code != http.StatusOK {
			t.Errorf("%s answers /readyz with %d although only Consul is down", r.Name, code)
		}
	}
	if res := m.Run("tenant", "create", "acme"); res.Code != 2 || !strings.Contains(res.Stderr, "connection refused") {
		t.Errorf("a change while Consul is down exits with %d: %s", res.Code, res.Stderr)
	}

	m.note("consul is back")
	m.Consul.Restart()
	m.comesTo(0, "config", "status")
	m.comesTo(0, "tenant", "create", "acme")
	m.comesTo(0, "namespace", "create", "acme/shop", "-f", m.namespaceFile("topology: {full-mesh: [us, ap]}\n"))
	m.comesTo(0, "topic", "create", "acme/shop/letters")
	m.comesTo(0, "topic", "describe", "acme/shop/letters", "--region", "ap")
	consultest.Until(t, "the services are registered again", func() bool { return m.services("rhumb-kafka", "") == 3 })
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.Stop()
	consultest.Until(t, "no service is left after a clean stop", func() bool { // the agent tells its catalog a moment later
		return m.services("rhumb-kafka", "") == 0 && m.services("rhumb-admin", "") == 0
	})
}

// isTold makes a change while Consul hangs: it ends with which store does not answer,
// and what to do.
func (m *Mesh) isTold(change []string) {
	res := m.Run(change...)
	if res.Code != 2 || !strings.Contains(res.Stderr, "consul at "+m.Consul.Addr) || !strings.Contains(res.Stderr, "try again when") {
		m.t.Errorf("rhumb %s exits with %d: %s", strings.Join(change, " "), res.Code, res.Stderr)
	}
	for _, wrong := range []string{"cannot be asked", "fault of the server", "deadline exceeded"} {
		if strings.Contains(res.Stderr, wrong) {
			m.t.Errorf("rhumb %s says %q: %s", strings.Join(change, " "), wrong, res.Stderr)
		}
	}
}

// Consul hangs: it takes connections and answers nothing. Traffic goes on, and so does
// the regions' health; a change of any kind ends with which store does not answer and
// what to do, and is made when Consul goes on.
func TestI5ConsulHangs(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us", "eu")
	m.create("us", "orders", 1)
	m.create("us", "old", 1)
	tr := m.Produce("orders", 1, 1)
	tr.Progress(50, "us", "eu")
	m.comesTo(0, "config", "status")
	thaw := m.Consul.Freeze()
	m.shows(1, []string{"store down", m.Consul.Addr}, "config", "status")
	var all sync.WaitGroup
	for _, change := range [][]string{
		{"region", "register", "ap"}, {"tenant", "create", "acme"}, {"topic", "delete", "old"}, {"topic", "configs", "orders", "set", "retention.ms=86400000"},
	} {
		all.Go(func() { m.isTold(change) })
	}
	all.Wait()
	for _, r := range m.Regions {
		if code := Ready(r.Admin); code != http.StatusOK {
			t.Errorf("%s answers /readyz with %d although only Consul hangs", r.Name, code)
		}
	}
	tr.Progress(50, "us", "eu")
	thaw()
	m.comesTo(0, "config", "status")
	m.comesTo(0, "topic", "delete", "old")
	m.comesTo(0, "region", "register", "ap")
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.Stop()
}

// Consul is restored from an old snapshot: policy does not go back, nothing is
// deleted or sent where it must not go, changes are refused until an operator puts
// back what the regions have seen.
func TestH8ConsulIsRestoredFromAnOldSnapshot(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us", "eu", "ap")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu", "ap")
	m.comesTo(0, "tenant", "create", "acme")
	old := m.Consul.Snapshot()
	m.comesTo(0, "namespace", "create", "acme/shop", "-f", m.namespaceFile("topology: {full-mesh: [us, eu]}\n"))
	m.comesTo(0, "topic", "create", "acme/shop/letters")
	m.comesTo(0, "topic", "describe", "acme/shop/letters", "--region", "eu")
	m.comesTo(0, "tenant", "create", "gone")
	m.comesTo(0, "tenant", "delete", "gone")

	m.note("consul is restored from an old snapshot")
	old()
	m.shows(1, []string{"store went back", "namespaces/acme/shop: the store has none", "rhumb config restore"}, "config", "status")
	tr.Progress(50, "us", "eu", "ap")
	m.Kill("eu")
	m.Restart("eu") // on a store that went back
	tr.Progress(50, "us", "eu", "ap")
	if res := m.Run("tenant", "create", "other"); res.Code == 0 || !strings.Contains(res.Stderr, "store went back") {
		t.Errorf("a change of a store that went back exits with %d: %s", res.Code, res.Stderr)
	}
	if out := m.comesTo(0, "namespace", "list"); !strings.Contains(out, "acme/shop") {
		t.Errorf("policy rolled back:\n%s", out)
	}
	m.comesTo(0, "topic", "describe", "acme/shop/letters", "--region", "eu")

	m.shows(1, []string{"would be version"}, "config", "restore")
	m.comesTo(0, "config", "restore", "--yes")
	m.comesTo(0, "config", "status")
	m.comesTo(0, "tenant", "create", "other")
	m.comesTo(0, "tenant", "list", "--region", "ap")
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.Stop()
}

// A first start needs Consul, and says so; a Consul that was emptied, or a prefix
// that was mistyped, does not begin a second mesh.
func TestFirstStartNeedsConsul(t *testing.T) {
	slow(t)
	m := StartWithConsul(t, "us")
	m.Stop()
	us := m.Region("us")
	text, err := os.ReadFile(us.Config)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, change func(string) string, want ...string) {
		t.Helper()
		if err := os.WriteFile(us.Config, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		res := Run(t, nil, "server", "--config", us.Config)
		for _, w := range want {
			if res.Code != 1 || !strings.Contains(res.Stderr, w) {
				t.Errorf("%s: exits with %d and has no %q:\n%s", name, res.Code, w, lastLines(res.Stderr, 3))
			}
		}
	}
	fresh := func(s string) string { return strings.Replace(s, "data-us", "data-new", 1) }
	refused("no token", func(s string) string { return fresh(strings.Replace(s, "token_file: region.token, ", "", 1)) },
		"a first start needs the store", "access denied", "docs/first-mesh.md")
	refused("another prefix", func(s string) string {
		return fresh(strings.Replace(s, "prefix: messaging/", "prefix: messaging/rhumb/v1/regions", 1))
	}, "holds no mesh yet")
	keys, _, err := m.Consul.API().KV().Keys(consulPrefix, "", nil)
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		if _, err := m.Consul.API().KV().Delete(key, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused("an emptied Consul", fresh, "holds no mesh yet", `rhumb certs init --config-store "consul://`)
	if keys, _, err := m.Consul.API().KV().Keys(consulPrefix, "", nil); err != nil || len(keys) != 0 {
		t.Errorf("a refused start made %v, %v", keys, err)
	}
	m.Consul.Kill()
	refused("Consul is down", fresh, "a first start needs the store, later ones do not", "connection refused", "bring the configuration store")
	if _, err := os.Stat(filepath.Join(m.Dir, "data-new", "FORMAT")); err == nil {
		t.Error("a refused first start left a data directory")
	}
	if err := os.WriteFile(us.Config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m.Restart("us") // later ones do not
	m.Stop()
}

// rhumb dev with a Consul: the same mesh comes back after the agent was killed
// between two runs of it.
func TestDevWithConsul(t *testing.T) {
	slow(t)
	if res := Run(t, nil, "dev", "--consul", "127.0.0.1:8500"); res.Code != 2 || !strings.Contains(res.Stderr, "--data") {
		t.Errorf("without --data it exits with %d: %s", res.Code, res.Stderr)
	}
	agent := consultest.Start(t, consultest.Options{})
	data := t.TempDir()
	args := []string{"--consul", "consul://" + agent.Addr + "/dev", "--data", data}
	d := StartDev(t, args...)
	d.Run(0, "topic", "create", "greetings")
	d.Run(0, "produce", "greetings", "hello")
	d.Run(0, "verify", "us", "eu", "--wait", "60s")
	d.Run(0, "config", "status")
	if _, err := os.Stat(filepath.Join(data, "config-store")); err == nil {
		t.Error("there is a directory store beside Consul")
	}
	if keys, _, err := agent.API().KV().Keys("dev/rhumb/v1/regions/", "", nil); err != nil || len(keys) != 3 {
		t.Errorf("regions in Consul: %v, %v", keys, err)
	}
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if res := Run(t, nil, "dev", "--data", data); res.Code == 0 || !strings.Contains(res.Stderr, "in Consul") {
		t.Errorf("without --consul it exits with %d: %s", res.Code, res.Stderr)
	}
	agent.Kill()
	agent.Restart()
	d = StartDev(t, args...)
	Until(t, "us has seen ap's new addresses, and they hold the same", func() bool {
		return Run(t, d.Env(), "verify", "us", "ap", "--wait", "60s").Code == 0
	})
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
