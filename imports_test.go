package rhumb_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rhumbmq/rhumb"

// rooms are the top-level packages, from the lowest to the highest. A room may
// import only rooms before it in its list: data flows up through callbacks and
// interfaces that the upper room declares.
var rooms = map[string]struct {
	mayImport []string
	reason    string
}{
	"internal":    {nil, "shared helpers belong to no room, so they may know none"},
	"storage":     {nil, "bytes on one node: it knows no leader, no policy and no protocol"},
	"dedup":       {nil, "pure tables: whatever they imported would have to be deterministic too"},
	"configstore": {nil, "policy must be readable by every room, so it can depend on none"},
	"region":      {[]string{"storage", "dedup", "configstore"}, "a region agrees on what storage keeps, and serves protocols it does not know"},
	"broker":      {[]string{"storage", "dedup", "configstore", "region"}, "a broker works while no link exists, so it must not need the replicator"},
	"replicator":  {[]string{"storage", "dedup", "configstore", "region", "broker"}, "links use the region as clients do; nothing below may wait for a link"},
	"cmd": {[]string{"storage", "dedup", "configstore", "region", "broker", "replicator"},
		"main only wires; nobody may depend on it"},
	"e2e": {[]string{"storage", "dedup", "configstore", "region", "broker", "replicator", "cmd"},
		"whole regions under test"},
	"topology-examples": {[]string{"storage", "dedup", "configstore", "region", "broker", "replicator", "cmd"},
		"each example is applied by a test"},
}

// homes names the libraries that only one part of the house may touch, so that
// replacing one of them is a change of one package.
var homes = []struct {
	library string
	homes   []string
	reason  string
}{
	{"github.com/cockroachdb/pebble", []string{"storage"}, "the state database is storage's secret"},
	{"go.etcd.io/raft/v3", []string{"storage", "region"}, "consensus happens inside a region; storage holds its types"},
	{"github.com/hashicorp/memberlist", []string{"region"}, "gossip is about who is in a region"},
	{"github.com/hashicorp/consul", []string{"configstore/consul"}, "one backend of the configuration store, and the services of that same agent; everybody else sees a Store"},
	{"github.com/twmb/franz-go/pkg/kmsg", []string{"broker/kafka"}, "foreign words stay behind the protocol's door"},
	{"github.com/prometheus/client_golang", []string{"broker/admin", "cmd"}, "one place decides names and labels of metrics"},
	{"github.com/quic-go/quic-go", []string{"replicator"}, "links are the replicator's"},
	{"github.com/klauspost/reedsolomon", []string{"replicator"}, "links correct their losses"},
	{"github.com/spf13/cobra", []string{"cmd"}, "flags end at the command line"},
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func room(importPath string) (name, rest string, ours bool) {
	rest, ours = strings.CutPrefix(importPath, module+"/")
	name, _, _ = strings.Cut(rest, "/")
	return name, rest, ours
}

// TestImportsPointDown holds every import against the table above.
func TestImportsPointDown(t *testing.T) {
	for _, p := range listPackages(t) {
		from, path, ours := room(p.ImportPath)
		if !ours {
			continue // the root holds tests only
		}
		rule, known := rooms[from]
		if !known {
			t.Errorf("%s: %q is not a room of the house", p.ImportPath, from)
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			to, _, ours := room(imp)
			if ours && to != from && to != "internal" && !slices.Contains(rule.mayImport, to) {
				t.Errorf("%s imports %s: not allowed, because %s", path, imp, rule.reason)
			}
		}
		checkHomes(t, path, p.Imports)
	}
}

func checkHomes(t *testing.T, path string, imports []string) {
	for _, imp := range imports {
		for _, h := range homes {
			if imp != h.library && !strings.HasPrefix(imp, h.library+"/") {
				continue
			}
			atHome := slices.ContainsFunc(h.homes, func(home string) bool {
				return path == home || strings.HasPrefix(path, home+"/")
			})
			if !atHome && !strings.HasPrefix(path, "e2e") {
				t.Errorf("%s imports %s: only %s may, because %s", path, imp, strings.Join(h.homes, ", "), h.reason)
			}
		}
	}
}

// TestProtocolDoorsAreStrangers: the Kafka, native and admin packages share
// state only through the broker.
func TestProtocolDoorsAreStrangers(t *testing.T) {
	doors := []string{module + "/broker/kafka", module + "/broker/pulsar", module + "/broker/admin"}
	for _, p := range listPackages(t) {
		if !slices.Contains(doors, p.ImportPath) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(doors, imp) {
				t.Errorf("%s imports %s: protocol packages never import each other", p.ImportPath, imp)
			}
		}
	}
}
