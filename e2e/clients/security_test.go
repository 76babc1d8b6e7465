package clients

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/e2e/process"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// guarded is a region with a listener whose users log in and one that takes client
// certificates, beside its open one.
type guarded struct {
	*process.Mesh
	t           *testing.T
	sasl, certs string // host:port
}

const alicesPassword = "it's a secret, alice"

func startGuarded(t *testing.T, session string) *guarded {
	t.Helper()
	g := &guarded{Mesh: process.Start(t, "us"), t: t}
	us := g.Region("us")
	host, port, err := net.SplitHostPort(us.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	g.sasl, g.certs = net.JoinHostPort(host, strconv.Itoa(n+1)), net.JoinHostPort(host, strconv.Itoa(n+2))
	file, err := os.ReadFile(us.Config)
	if err != nil {
		t.Fatal(err)
	}
	more := fmt.Sprintf(`listeners:
  - {name: login, protocol: kafka, bind: "%s", tls: {cert: region-us.crt, key: region-us.key}, sasl: {session: %s}}
  - {name: certificate, protocol: kafka, bind: "%s", tls: {ca: ca.crt, cert: region-us.crt, key: region-us.key}}
`, g.sasl, session, g.certs)
	if err := os.WriteFile(us.Config, []byte(strings.Replace(string(file), "listeners:\n", more, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	g.Kill("us")
	g.Restart("us")
	g.rhumb(alicesPassword, "user", "create", "alice", "--grant", "public/default")
	g.rhumb("root's", "user", "create", "root", "--admin")
	return g
}

// rhumb runs a command that may ask for a password.
func (g *guarded) rhumb(password string, args ...string) {
	g.t.Helper()
	env := []string{"RHUMB_ADDR=http://" + g.Region("us").Admin, "RHUMB_PASSWORD=" + password}
	if res := process.Run(g.t, env, args...); res.Code != 0 {
		g.t.Fatalf("rhumb %s: %d\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
}

// login gives kcat's options of a user who logs in.
func (g *guarded) login(mechanism, user, password string) []string {
	return []string{"-b", g.sasl, "-X", "security.protocol=SASL_SSL", "-X", "ssl.ca.location=" + filepath.Join(g.Dir, "ca.crt"),
		"-X", "sasl.mechanisms=" + mechanism, "-X", "sasl.username=" + user, "-X", "sasl.password=" + password}
}

// kcat logs in by each mechanism and by certificate, is told of a wrong password,
// and goes on with a new certificate of the server and after a kill -9.
func TestKcatLogsIn(t *testing.T) {
	need(t, "kcat")
	g := startGuarded(t, "1h") // this client knows no second login
	var want []string
	produce := func(options []string, lines ...string) {
		t.Helper()
		want = append(want, lines...)
		kcat(t, strings.NewReader(strings.Join(lines, "\n")+"\n"), append(options, "-P", "-t", "orders", "-X", "enable.idempotence=true")...)
	}
	for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		produce(g.login(m, "alice", alicesPassword), m)
	}
	produce(g.login("SCRAM-SHA-256", "alice@public/default", alicesPassword), "by namespace")
	produce(g.byCertificate("alice"), "by certificate")

	text := failing(t, append(g.login("SCRAM-SHA-256", "alice", "guess"), "-L", "-m", "12")...)
	if !strings.Contains(text, "uthentication failed") {
		t.Errorf("a wrong password: %s", text)
	}

	g.renew()
	produce(g.login("SCRAM-SHA-512", "alice", alicesPassword), "with a new certificate")
	g.Kill("us")
	g.Restart("us")
	produce(g.login("SCRAM-SHA-512", "alice", alicesPassword), "after a kill")
	got := kcat(t, nil, append(g.login("PLAIN", "alice", alicesPassword), "-C", "-t", "orders", "-e", "-q")...)
	if got != strings.Join(want, "\n")+"\n" {
		t.Errorf("read:\n%swant:\n%s", got, strings.Join(want, "\n"))
	}
}

// byCertificate gives kcat's options of a user whose certificate the CA signs.
func (g *guarded) byCertificate(user string) []string {
	g.t.Helper()
	pair, err := g.ca().IssueClient(user, 0)
	file := filepath.Join(g.Dir, "client-"+user)
	if err == nil {
		err = pair.Save(file+".crt", file+".key")
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return []string{"-b", g.certs, "-X", "security.protocol=SSL", "-X", "ssl.ca.location=" + filepath.Join(g.Dir, "ca.crt"),
		"-X", "ssl.certificate.location=" + file + ".crt", "-X", "ssl.key.location=" + file + ".key"}
}

func (g *guarded) ca() *certs.CA {
	g.t.Helper()
	ca, err := certs.LoadCA(filepath.Join(g.Dir, "ca.crt"), filepath.Join(g.Dir, "ca.key"))
	if err != nil {
		g.t.Fatal(err)
	}
	return ca
}

// renew puts a new certificate in the place of the region's.
func (g *guarded) renew() {
	g.t.Helper()
	pair, err := g.ca().IssueRegion(rhumb.RegionName("us"), []string{"127.0.0.1"}, time.Hour)
	if err == nil {
		err = pair.Save(filepath.Join(g.Dir, "region-us.crt"), filepath.Join(g.Dir, "region-us.key"))
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// failing runs kcat, which must not succeed, and gives what it says.
func failing(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, need(t, "kcat"), args...).CombinedOutput()
	if err == nil {
		t.Fatalf("kcat %s succeeds:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// Kafka's own tools log in, as docs/security.md shows, and an administrator gives a
// user a password with kafka-configs.
func TestKafkaToolsLogIn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a few JVMs")
	}
	java(t, "") // or skip before a region starts
	g := startGuarded(t, "4s")
	properties := func(user, password string) string {
		path := filepath.Join(t.TempDir(), "client.properties")
		text := fmt.Sprintf(`security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=%s
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";
`, filepath.Join(g.Dir, "ca.crt"), user, password)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool := func(stdin, class string, args ...string) (string, error) {
		t.Helper()
		command := java(t, "")
		last := len(command) - 1
		command[last] += ":" + filepath.Join(filepath.Dir(installed(t, "java", "java/lib")), "tools", "*")
		ctx, cancel := context.WithTimeout(context.Background(), process.Limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], append(append(command[1:], class, "--bootstrap-server", g.sasl), args...)...)
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	must := func(text string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return text
	}
	root, alice := properties("root", "root's"), properties("alice", alicesPassword)
	const configs, producer = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.ConsoleProducer"
	must(tool("", configs, "--command-config", root, "--alter", "--entity-type", "users", "--entity-name", "dora",
		"--add-config", "SCRAM-SHA-512=[iterations=8192,password=doras]"))
	text := must(tool("", configs, "--command-config", root, "--describe", "--entity-type", "users", "--entity-name", "dora"))
	if !strings.Contains(text, "SCRAM-SHA-512=iterations=8192") {
		t.Errorf("described:\n%s", text)
	}
	g.rhumb("", "user", "grant", "dora", "public/default")
	must(tool("from dora\n", producer, "--topic", "orders", "--command-config", properties("dora", "doras")))
	must(tool("from alice\n", producer, "--topic", "orders", "--command-config", alice))
	text = must(tool("", "org.apache.kafka.tools.ProducerPerformance", "--topic", "slow", "--num-records", "120", "--throughput", "15",
		"--record-size", "10", "--command-config", alice)) // for twice as long as a login lasts
	if !strings.Contains(text, "120 records sent") || strings.Contains(text, "xception") {
		t.Errorf("a producer that logs in again:\n%s", text)
	}
	if text, err := tool("", configs, "--command-config", alice, "--describe", "--entity-type", "users"); err == nil && !strings.Contains(text, "uthorization") {
		t.Errorf("alice is no administrator:\n%s", text)
	}
	text = must(tool("", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "orders", "--from-beginning", "--max-messages", "2", "--command-config", alice))
	if !strings.Contains(text, "from dora") || !strings.Contains(text, "from alice") {
		t.Errorf("read:\n%s", text)
	}
}
