package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"go.yaml.in/yaml/v3"
)

const minimal = "region: {name: us}\ndata_dir: /data\n"

func TestMinimalFileHasTheDefaults(t *testing.T) {
	c, err := Parse([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Region.Name, want.DataDir = "us", "/data"
	want.ConfigStore.Embedded.Path = "/data/config-store"
	for i := range want.Listeners {
		want.Listeners[i].Advertise = want.Listeners[i].Bind
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	if c.Kafka.MessageMaxBytes != 1048588 || c.Kafka.Retention.Std() != 168*time.Hour || !c.Kafka.AutoCreate ||
		c.Kafka.Partitions != 1 || c.Limits.RequestBytes != 100<<20 || c.MinFree != (MinFree{5, 1 << 30}) || c.Durability != DurabilityFsync {
		t.Errorf("a default that users were promised differs: %+v", c)
	}
}

func TestSampleFileHasEveryKey(t *testing.T) {
	c, err := Load("testdata/region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata")
	if c.DataDir != filepath.Join(dir, "data") || c.Listeners[3].TLS.CA != filepath.Join(dir, "certs/ca.pem") || c.ConfigStore.Embedded.Path != "/srv/rhumb/config" {
		t.Errorf("paths are not taken from the file's directory: %+v", c)
	}
	if c.Listeners[1].Advertise != "[::1]:9093" || c.Listeners[2].Name != "admin" || c.Kafka.AutoCreate || c.MinFree.Bytes != 2<<30 {
		t.Errorf("%+v", c)
	}
	raw, err := os.ReadFile("testdata/region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	collect(root.Content[0], "", has)
	for _, f := range Fields() {
		if !has[f.Path] && !strings.HasPrefix(f.Path, "config_store.consul.") {
			t.Errorf("the sample file lacks %s", f.Path)
		}
	}
}

func collect(n *yaml.Node, prefix string, into map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			path := prefix + n.Content[i].Value
			into[path] = true
			if n.Content[i+1].Kind == yaml.SequenceNode {
				path += "[]"
			}
			collect(n.Content[i+1], path+".", into)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			collect(c, prefix, into)
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Fields() {
		if !strings.HasSuffix(f.Doc, ".") || seen[f.Path] || strings.Contains(f.Path, "..") {
			t.Errorf("%s: %q", f.Path, f.Doc)
		}
		seen[f.Path] = true
	}
	ref := Reference()
	for _, want := range []string{
		"| `kafka.message_max_bytes` | `1048588` |", "| `kafka.retention` | `7d` |", "| `limits.request_bytes` | `100MiB` |",
		"| `listeners[].tls.ca` |  |", "| `kafka.auto_create` | `true` |", "| `min_free.percent` | `5` |",
	} {
		if !strings.Contains(ref, want) {
			t.Errorf("the reference lacks %q:\n%s", want, ref)
		}
	}
}

func TestRefusalsNameLineAndField(t *testing.T) {
	for text, want := range map[string][]string{
		minimal + "limits: [1, 2]\n":                                                                        {"line 3: limits: has a list, and must have fields"},
		minimal + "log_writes: [direct]\n":                                                                  {"line 3: log_writes: has a list, and must have text"},
		minimal + "limits:\n  link_memory: 1 MB\n":                                                          {"line 4: link_memory: \"1 MB\" is no size"},
		minimal + "listeners: {a: b}\n":                                                                     {"has fields, and must have a list"},
		"a: 1\nregion: {name: us\n":                                                                         {"line 2: did not find expected ',' or '}'"},
		"region:\n   name: us\n  nmae: x\nlog: {}\n":                                                        {"line 3: did not find expected key"},
		minimal + "limits: &a {}\nlog: *b\n":                                                                {"line 4: unknown anchor"},
		minimal + "---\nlog: [\n":                                                                           {"line 4: "},
		"regoin: {name: us}\n":                                                                              {"line 1", "no such key: regoin"},
		"region:\n  name: us\n  nmae: x\n":                                                                  {"line 3", "no such key: nmae"},
		"data_dir: /d\nregion: {name: US}\n":                                                                {"line 2", "region.name", "[a-z]"},
		"data_dir: /d\n":                                                                                    {"region.name", "is required"},
		"region: {name: us}\n":                                                                              {"data_dir", "is required"},
		minimal + "durability: maybe\n":                                                                     {"line 3", "durability", "fsync, interval, none"},
		minimal + "durability: fsync\ndurability: none\n":                                                   {"line 4", "durability"},
		minimal + "shards: 0\n":                                                                             {"line 3", "shards", "1 to 1024"},
		minimal + "flush_interval: 1x\n":                                                                    {"line 3", `"1x" is no duration`},
		minimal + "flush_interval: 0s\n":                                                                    {"line 3", "flush_interval", "1ms to 1m0s"},
		minimal + "limits:\n  tail_cache: 64 MB\n":                                                          {"line 4", `"64 MB" is no size`},
		minimal + "limits:\n  request_bytes: 2GiB\n":                                                        {"line 4", "limits.request_bytes", "64KiB to 1GiB, not 2GiB"},
		minimal + "limits: {request_memory: 1MiB}\n":                                                        {"line 3", "limits.request_memory", "100MiB"},
		minimal + "log: {level: loud}\n":                                                                    {"line 3", "log.level"},
		minimal + "kafka: {message_max_bytes: 200MiB}\n":                                                    {"line 3: limits.append_memory: must be at least what kafka.message_max_bytes is, 200MiB, not 128MiB"},
		minimal + "limits: {append_memory: 64MiB}\nkafka: {message_max_bytes: 90MiB}\n":                     {"line 3: limits.append_memory", "kafka.message_max_bytes is, 90MiB, not 64MiB"},
		minimal + "limits: {}\nkafka:\n  message_max_bytes: 90MiB\n":                                        {"line 5: limits.link_window", "kafka.message_max_bytes is, 90MiB"},
		minimal + "config_store: {consul: {address: x}}\n":                                                  {"line 3", "config_store.consul.address", "must be host:port"},
		minimal + "config_store: {consul: {}, embedded: {path: x}}\n":                                       {"line 3", "config_store.consul", "one configuration store"},
		minimal + "config_store:\n  consul:\n":                                                              {"line 4", "consul: has nothing in it"},
		minimal + "config_store:\n  consul:\n    prefix: /x\n":                                              {"line 5", "config_store.consul.prefix", "names of"},
		minimal + "config_store:\n  consul:\n    tls: {cert: x}\n":                                          {"line 5", "config_store.consul.tls", "cert and key"},
		minimal + "config_store:\n  consul:\n    services: maybe\n":                                         {"line 5", "config_store.consul.services", "register, off"},
		minimal + "config_store: {consul: {token: secret}}\n":                                               {"line 3", "no such key: token"},
		minimal + "admin: {token: short}\n":                                                                 {"line 3", "admin.token", "at least 16"},
		minimal + "admin: {token: 'a b c d e f g h i'}\n":                                                   {"line 3", "admin.token", "ASCII"},
		minimal + "listeners:\n  - {protocol: http}\n":                                                      {"line 4", "listeners[0].protocol", "kafka, admin, geo"},
		minimal + "listeners:\n  - {protocol: kafka}\n  - {protocol: kafka}\n":                              {"line 5", "listeners[1].name", "twice"},
		minimal + "listeners:\n  - {protocol: kafka}\n  - {protocol: kafka, name: b}\n":                     {"line 5", "bound by another listener"},
		minimal + "listeners:\n  - {protocol: kafka, bind: ':9092'}\n":                                      {"line 4", "listeners[0].advertise", "is required"},
		minimal + "listeners:\n  - {protocol: kafka, bind: '::1:9092'}\n":                                   {"line 4", "host:port"},
		minimal + "listeners:\n  - {protocol: kafka, advertise: '0.0.0.0:1'}\n":                             {"line 4", "nobody can connect"},
		minimal + "listeners:\n  - {protocol: geo}\n":                                                       {"line 4", "listeners[0].tls", "required for geo"},
		minimal + "listeners:\n  - {protocol: geo, tls: {cert: a, key: b}}\n":                               {"line 4", "listeners[0].tls.ca"},
		minimal + "listeners:\n  - {protocol: kafka, tls: {cert: a}}\n":                                     {"line 4", "needs cert and key"},
		minimal + "listeners:\n  - protocol: kafka\n    sasl:\n":                                            {"line 5", "sasl", "nothing"},
		minimal + "listeners:\n  - {protocol: kafka, tls: ~}\n":                                             {"line 4", "tls", "nothing"},
		minimal + "listeners:\n  - {protocol: admin, sasl: {}}\n":                                           {"line 4", "listeners[0].sasl", "kafka"},
		minimal + "listeners:\n  - {protocol: kafka, sasl: {mechanisms: [GSSAPI]}}\n":                       {"line 4", "PLAIN", "GSSAPI"},
		minimal + "listeners:\n  - {protocol: kafka, sasl: {mechanisms: [PLAIN, PLAIN]}}\n":                 {"line 4", "twice"},
		minimal + "listeners:\n  - {protocol: kafka, sasl: {session: 1ms}}\n":                               {"line 4", "sasl.session"},
		minimal + "listeners:\n  - {protocol: kafka, sasl: {}, namespace: a/b}\n":                           {"line 4", "namespace", "the user's"},
		minimal + "listeners:\n  - {protocol: kafka, namespace: a}\n":                                       {"line 4", "namespace", "tenant/namespace"},
		minimal + "listeners:\n  - {protocol: kafka, max_connections: -1}\n":                                {"line 4", "max_connections"},
		minimal + "listeners:\n  - {protocol: kafka, bind: '10.0.0.1:9092', sasl: {mechanisms: [PLAIN]}}\n": {"line 4", "PLAIN", "tls"},
		minimal + "links:\n  - {region: us, via: 'h:1'}\n":                                                  {"line 4", "links[0].region", "itself"},
		minimal + "links:\n  - {region: eu, via: ':1'}\n":                                                   {"line 4", "links[0].via", "host"},
		minimal + "links:\n  - {region: eu, via: 'h:1'}\n  - {region: eu, via: 'h:1'}\n":                    {"line 5", "links[1].region", "twice"},
		minimal + "---\n" + minimal:                                                                         {"only one YAML document"},
		"region: [us]\n":                                                                                    {"line 1"},
		"\tregion: us\n":                                                                                    {"line 1"},
	} {
		refused(t, text, want)
	}
}

func TestLinksSayWhatDiffers(t *testing.T) {
	refused(t, minimal+"links:\n  - {region: eu}\n", []string{"line 4", "links[0]", "via or fec"})
	refused(t, minimal+"links:\n  - {region: eu, fec: '20'}\n", []string{"line 4", "links[0].fec", "20+4"})
}

func refused(t *testing.T, text string, want []string) {
	t.Helper()
	_, err := Parse([]byte(text))
	if err == nil || rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("%q: %v", text, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q: %v does not say %q", text, err, w)
		}
	}
	if strings.Contains(err.Error(), "config.Config") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q: %q is not for users", text, err)
	}
}

// What is offered follows from who could listen: a password goes over the network
// only inside of TLS.
func TestPlainNeedsTLSOrLoopback(t *testing.T) {
	for door, want := range map[string]string{
		"bind: '127.0.0.1:9092'":                               "SCRAM-SHA-512 SCRAM-SHA-256 PLAIN",
		"bind: '10.0.0.1:9092'":                                "SCRAM-SHA-512 SCRAM-SHA-256",
		"bind: ':9092', advertise: 'h:9092'":                   "SCRAM-SHA-512 SCRAM-SHA-256",
		"bind: '10.0.0.1:9092', tls: {cert: c, key: k}":        "SCRAM-SHA-512 SCRAM-SHA-256 PLAIN",
		"bind: '10.0.0.1:9092', tls: {ca: a, cert: c, key: k}": "SCRAM-SHA-512 SCRAM-SHA-256 PLAIN",
	} {
		c, err := Parse([]byte(minimal + "listeners:\n  - {protocol: kafka, sasl: {}, " + door + "}\n"))
		if err != nil {
			t.Errorf("%s: %v", door, err)
		} else if got := strings.Join(c.Listeners[0].SASL.Mechanisms, " "); got != want {
			t.Errorf("%s offers %s", door, got)
		}
	}
}

// TestAdminIsNotOpenToTheNetwork: an address that others can reach needs a token
// or client certificates.
func TestAdminIsNotOpenToTheNetwork(t *testing.T) {
	for _, c := range []struct {
		bind, more string
		ok         bool
	}{
		{"127.0.0.1:8080", "", true},
		{"127.8.0.1:8080", "", true},
		{"[::1]:8080", "", true},
		{"localhost:8080", "", true},
		{":8080", "", false},
		{"0.0.0.0:8080", "", false},
		{"[::]:8080", "", false},
		{"10.0.0.1:8080", "", false},
		{"example.org:8080", "", false},
		{":8080", ", tls: {cert: c, key: k}", false},
		{":8080", ", tls: {ca: a, cert: c, key: k}", true},
		{":8080", "}\nadmin: {token: 0123456789abcdef", true},
	} {
		_, err := Parse([]byte(minimal + "listeners:\n  - {protocol: admin, bind: '" + c.bind + "'" + c.more + "}\n"))
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "not loopback") {
			t.Errorf("%s%s: %v", c.bind, c.more, err)
		}
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "region.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("region.yaml", minimal+"admin: {token_file: token}\n")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "admin.token_file") || !strings.Contains(err.Error(), file) {
		t.Errorf("no token file: %v", err)
	}
	write("token", "0123456789abcdef\n")
	if c, err := Load(file); err != nil || c.Admin.Token != "0123456789abcdef" {
		t.Errorf("%q, %v", c.Admin.Token, err)
	}
	write("token", "\n")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty token file: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "absent.yaml")); err == nil {
		t.Error("an absent file is taken")
	}
}

func TestAdminCallersAreChecked(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{tokens: [{name: a, role: viewer, token_file: f}, {name: c, role: tenant, token_file: f}, {name: b, role: admin, token_file: f}], certificates: [{ou: x, role: operator}], hosts: [a.example]}", ""},
		{"{tokens: [{name: a, role: root, token_file: f}]}", "admin.tokens[0].role: must be tenant, viewer, operator, admin"},
		{"{tokens: [{name: a, role: viewer, token_file: f}, {name: a, role: viewer, token_file: f}]}", "admin.tokens[1].name"},
		{"{tokens: [{name: local, role: viewer, token_file: f}]}", "admin.tokens[0].name"},
		{"{tokens: [{name: a b, role: viewer, token_file: f}]}", "admin.tokens[0].name"},
		{"{tokens: [{role: viewer, token_file: f}]}", "admin.tokens[0].name"},
		{"{tokens: [{name: a, role: viewer}]}", "admin.tokens[0].token_file: is required"},
		{"{certificates: [{role: viewer}]}", "admin.certificates[0]: wants one of cn, ou and san"},
		{"{certificates: [{cn: a, san: b, role: viewer}]}", "admin.certificates[0]: wants one"},
		{"{certificates: [{cn: a}]}", "admin.certificates[0].role"},
		{"{hosts: ['http://x']}", "admin.hosts[0]"},
		{"{hosts: ['x:80']}", "admin.hosts[0]"},
	} {
		_, err := Parse([]byte(minimal + "admin: " + c.text + "\n"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestValuesReadWhatTheyWrite(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "-1": -1, "1048588": 1048588, "1B": 1, "64KiB": 64 << 10, "1 GiB": 1 << 30, "8TiB": 8 << 40} {
		got, err := ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		if back, err := ParseBytes(got.String()); err != nil || back != got {
			t.Errorf("%s writes %s", text, got)
		}
	}
	for _, text := range []string{"", "x", "1MB", "-2", "-1KiB", "1.5GiB", "9223372036854775807KiB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%s is taken as %d", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "-1": -1, "7d": 168 * time.Hour, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute} {
		got, err := ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if back, err := ParseDuration(got.String()); err != nil || back != got {
			t.Errorf("%s writes %s", text, got)
		}
	}
	for _, text := range []string{"", "7", "-2s", "1.5d", "999999999999d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s is taken as %v", text, got)
		}
	}
}

func TestPortsOfRegionsDoNotMeet(t *testing.T) {
	if p := PortsOf(0, 0); p != (Ports{9092, 6650, 8080, 7650, 5650, 4650}) {
		t.Errorf("%+v", p)
	}
	if p := PortsOf(2, 1); p.Kafka != 9302 || p.Geo != 7860 {
		t.Errorf("%+v", p)
	}
}

func FuzzParse(f *testing.F) {
	sample, err := os.ReadFile("testdata/region.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte(minimal))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("limits: {<<: &x {tail_cache: 1}, log_file: *x}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err != nil {
			return
		}
		out, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(out)
		if err != nil || !reflect.DeepEqual(c, back) {
			t.Fatalf("%s reads back as %+v, %v", out, back, err)
		}
	})
}

// TestConsulFile: a file that names Consul has no embedded store, and each of its
// keys reaches the backend. Its paths are taken from the file's directory.
func TestConsulFile(t *testing.T) {
	c, err := Load("testdata/consul.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.ConfigStore.Embedded != nil {
		t.Errorf("an embedded store beside Consul: %+v", c.ConfigStore.Embedded)
	}
	want := consul.Config{
		Address: "https://consul.example:8501", TokenFile: "testdata/consul.token", Datacenter: "eu-west", Namespace: "messaging", Partition: "p",
		Prefix: "prod", TLS: consul.TLS{CA: "/etc/consul/ca.pem", Cert: "testdata/consul.pem", Key: "testdata/consul.key", ServerName: "server.eu-west.consul"},
	}
	if again := ConsulOf(want).Backend(); again != want {
		t.Errorf("written and read again it is %+v, want %+v", again, want)
	}
	if got := c.ConfigStore.Consul.Backend(); got != want || c.ConfigStore.Consul.Services != ServicesOff {
		t.Errorf("got %+v, want %+v", got, want)
	}
	raw, err := os.ReadFile("testdata/consul.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	collect(root.Content[0], "", has)
	for _, f := range Fields() {
		if strings.HasPrefix(f.Path, "config_store.consul.") && !has[f.Path] {
			t.Errorf("the file lacks %s", f.Path)
		}
	}
	bare, err := Parse([]byte(minimal + "config_store: {consul: {}}\n"))
	if err != nil || bare.ConfigStore.Embedded != nil || bare.ConfigStore.Consul.Services != ServicesRegister {
		t.Errorf("consul with nothing of its own: %+v, %v", bare.ConfigStore, err)
	}
}
