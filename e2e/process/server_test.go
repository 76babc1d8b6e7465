package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// SIGTERM under traffic: the region finishes what is in flight and exits with 0
// within its grace. Whoever was not answered sends again, and nothing is doubled.
func TestI1SIGTERMUnderTraffic(t *testing.T) {
	m := Start(t, "us")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 3)
	for range 2 {
		tr.Progress(100, "us")
		us := m.Region("us").Process()
		us.Signal(syscall.SIGTERM)
		if code := us.Wait(); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, lastLines(us.Output(), 30))
		}
		if !strings.Contains(us.Output(), `"msg":"stopped"`) {
			t.Errorf("it does not say that it stopped:\n%s", lastLines(us.Output(), 30))
		}
		m.Restart("us")
	}
	tr.Progress(100, "us")
	tr.Finish()
	tr.Check(m)
}

// A file that cannot work is refused before anything is made.
func TestServerRefusesWrongFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"unknown key":          {"region: {name: us}\ndata_dir: data\nshard: 4\n", "line 3: no such key: shard"},
		"no data_dir":          {"region: {name: us}\n", "data_dir: is required"},
		"not YAML":             {"region: [\n", "line"},
		"admin for everybody":  {"region: {name: us}\ndata_dir: data\nlisteners: [{protocol: admin, bind: \"0.0.0.0:0\", advertise: \"a.example:80\"}]\n", "set admin.token"},
		"geo without TLS":      {"region: {name: us}\ndata_dir: data\nlisteners: [{protocol: geo, bind: \"127.0.0.1:0\"}]\n", "tls: is required"},
		"two stores":           {"region: {name: us}\ndata_dir: data\nconfig_store: {consul: {}, embedded: {path: x}}\n", "one configuration store"},
		"certificates missing": {"region: {name: us}\ndata_dir: data\nlisteners: [{protocol: kafka, bind: \"127.0.0.1:0\", tls: {cert: no.crt, key: no.key}}]\n", "no.crt"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "region.yaml")
		if err := os.WriteFile(path, []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		res := Run(t, nil, "server", "--config", path)
		if res.Code != 1 || !strings.Contains(res.Stderr, c.want) {
			t.Errorf("%s: exit code %d, want 1 and %q:\n%s%s", name, res.Code, c.want, res.Stdout, res.Stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
			t.Errorf("%s: a data directory was made", name)
		}
	}
	for _, args := range [][]string{{"server"}, {"server", "--config", filepath.Join(t.TempDir(), "none.yaml")}} {
		if res := Run(t, nil, args...); res.Code == 0 || res.Stderr == "" {
			t.Errorf("%v: exit code %d, %q", args, res.Code, res.Stderr)
		}
	}
}

// Two processes on one data directory would tear it apart: the second is refused
// and the first goes on.
func TestI2SecondProcessOnADataDirectoryIsRefused(t *testing.T) {
	m := Start(t, "us")
	m.create("us", "orders", 1)
	us := m.Region("us")
	text, err := os.ReadFile(us.Config)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(m.Dir, "other.yaml")
	moved := strings.NewReplacer(us.Kafka, "127.0.0.1:0", us.Admin, "127.0.0.1:0", us.Geo, "127.0.0.1:0").Replace(string(text))
	if err := os.WriteFile(other, []byte(moved), 0o644); err != nil {
		t.Fatal(err)
	}
	res := Run(t, nil, "server", "--config", other)
	if res.Code != 1 || !strings.Contains(res.Stderr, "data-us") {
		t.Errorf("the second exits with %d: %s", res.Code, res.Stderr)
	}
	tr := m.Produce("orders", 1, 1)
	tr.Progress(50, "us")
	tr.Finish()
	tr.Check(m)
}

// A new region's file that names the data of another one, since it was copied from there:
// it is refused while that one is stopped, which goes on afterwards as it was.
func TestI2DataDirectoryOfAnotherRegionIsRefused(t *testing.T) {
	m := Start(t, "us", "eu")
	m.create("us", "orders", 1)
	sa := m.Prepare("sa")
	m.Forget("sa")
	m.Kill("us")
	text, err := os.ReadFile(sa.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sa.Config, []byte(strings.Replace(string(text), "data-sa", "data-us", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if res := Run(t, nil, "server", "--config", sa.Config); res.Code != 1 || !strings.Contains(res.Stderr, "is that of region us") || !strings.Contains(res.Stderr, "data_dir") {
		t.Errorf("it exits with %d: %s", res.Code, res.Stderr)
	}
	m.Restart("us")
	tr := m.Produce("orders", 1, 1)
	tr.Progress(50, "us", "eu")
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
}
