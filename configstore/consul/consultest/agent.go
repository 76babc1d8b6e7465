package consultest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/internal/porttest"
)

// Patience bounds each thing that is waited for. A machine may start several
// agents at once.
const Patience = 2 * time.Minute

// Options of an [Agent].
type Options struct {
	// ACL denies everything that no token allows; [Agent.Token] allows all.
	ACL bool
	// Addr is host:port of its HTTP API. Empty: a free port of the loopback interface.
	Addr string
}

// Agent is a Consul server of one node.
type Agent struct {
	// Addr is host:port of its HTTP API.
	Addr string
	// Token may do everything; empty without ACLs.
	Token string

	t      testing.TB
	dir    string
	life   *life // nil while it does not run
	client *api.Client
}

// life is one process.
type life struct {
	cmd  *exec.Cmd
	out  printed
	done chan struct{}
}

// printed keeps what an agent prints.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *printed) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *printed) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// managementToken is the one of every agent with ACLs.
const managementToken = "6f0e1b6c-8a5d-4a8e-9c4e-3d1f5b2a7c90"

// Start runs an agent until the test ends, and waits until it answers.
func Start(t testing.TB, opts Options) *Agent {
	t.Helper()
	a := &Agent{t: t, dir: t.TempDir(), Addr: opts.Addr}
	ports := porttest.Ports(t, 3)
	if a.Addr == "" {
		a.Addr = fmt.Sprintf("127.0.0.1:%d", ports[0])
	}
	if opts.ACL {
		a.Token = managementToken
	}
	var port int
	fmt.Sscanf(a.Addr[strings.LastIndex(a.Addr, ":"):], ":%d", &port)
	cfg := map[string]any{
		"node_name": "rhumb-test", "server": true, "bootstrap": true, "data_dir": filepath.Join(a.dir, "data"),
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "warn", "disable_update_check": true,
		"ports":                 map[string]int{"http": port, "server": ports[1], "serf_lan": ports[2], "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1},
		"performance":           map[string]int{"raft_multiplier": 1},
		"connect":               map[string]bool{"enabled": false},
		"check_update_interval": "0s",
	}
	if opts.ACL {
		cfg["acl"] = map[string]any{"enabled": true, "default_policy": "deny", "tokens": map[string]string{"initial_management": managementToken, "agent": managementToken}}
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "agent.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	a.client, err = api.NewClient(&api.Config{Address: a.Addr, Scheme: "http", Token: a.Token, Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	a.Restart()
	t.Cleanup(func() {
		l := a.life
		a.Kill()
		if t.Failed() && l != nil {
			t.Logf("consul at %s:\n%s", a.Addr, l.out.String())
		}
	})
	return a
}

// Restart starts an agent that was killed, on its data, and waits until it answers.
func (a *Agent) Restart() {
	a.t.Helper()
	if a.life != nil {
		return
	}
	l := &life{cmd: exec.Command(Binary(a.t), "agent", "-config-file", filepath.Join(a.dir, "agent.json")), done: make(chan struct{})}
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go l.run(started)
	if err := <-started; err != nil {
		a.t.Fatal(err)
	}
	a.life = l
	Until(a.t, "consul at "+a.Addr+" answers", func() bool {
		select {
		case <-l.done:
			a.t.Fatalf("consul ended:\n%s", l.out.String())
		default:
		}
		_, _, err := a.client.KV().Get("rhumb-test-answers", &api.QueryOptions{RequireConsistent: true})
		return err == nil
	})
}

// run owns a thread until the process has ended: on Linux the kernel kills the
// process when the thread that forked it ends.
func (l *life) run(started chan<- error) {
	runtime.LockOSThread()
	if err := l.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	l.cmd.Wait() // how it ended is of no interest
	close(l.done)
}

// Kill ends the agent with SIGKILL and waits for its end. It is idempotent.
func (a *Agent) Kill() {
	if a.life == nil {
		return
	}
	a.life.cmd.Process.Kill() // an error means that it has ended
	<-a.life.done
	a.life = nil
}

// Freeze stops the agent where it is, as a machine does that hangs: connections are
// taken, and nothing is answered, until thaw.
func (a *Agent) Freeze() (thaw func()) {
	a.t.Helper()
	p := a.life.cmd.Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	return func() { p.Signal(syscall.SIGCONT) } // an error means that it has ended
}

// Snapshot saves the state of the agent; restore takes it back to that state, as an
// operator does with `consul snapshot restore`.
func (a *Agent) Snapshot() (restore func()) {
	a.t.Helper()
	r, _, err := a.client.Snapshot().Save(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		a.t.Fatal(err)
	}
	return func() {
		a.t.Helper()
		if err := a.client.Snapshot().Restore(nil, bytes.NewReader(raw)); err != nil {
			a.t.Error(err)
		}
	}
}

// API gives a client of Consul's own that may do everything.
func (a *Agent) API() *api.Client { return a.client }

// TokenFor makes a token that may do what the rules (HCL) say.
func (a *Agent) TokenFor(name, rules string) string {
	a.t.Helper()
	p, _, err := a.client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	// Not by the client's own call: a newer one tells a field that this server refuses.
	var token struct{ SecretID string }
	body := map[string]any{"Policies": []map[string]string{{"ID": p.ID}}}
	if _, err := a.client.Raw().Write("/v1/acl/token", body, &token, nil); err != nil {
		a.t.Fatal(err)
	}
	return token.SecretID
}

// Until polls a condition until it holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}
