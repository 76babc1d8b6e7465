package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// command runs a command line as the binary does.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "rhumb"}
	AddCommands(root)
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	code = Run(t.Context(), root, args, &errOut)
	return code, out.String(), errOut.String()
}

// meshOf makes a configuration store whose mesh has the region eu.
func meshOf(t *testing.T, addr string) (dir string, eu configstore.Region) {
	t.Helper()
	dir = t.TempDir()
	store, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	if _, err := w.EnsureMesh(t.Context()); err != nil {
		t.Fatal(err)
	}
	eu, err = w.RegisterRegion(t.Context(), configstore.Region{Name: "eu", DataUUID: rhumb.NewUUID(),
		Addresses: map[string][]string{configstore.ProtocolAdmin: {addr}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return dir, eu
}

const nobody = "127.0.0.1:1" // nobody listens there

func regionsOf(t *testing.T, dir string) (rows []regionRow) {
	t.Helper()
	code, out, errOut := command(t, "region", "list", "--config-store", dir, "-o", "json")
	if err := json.Unmarshal([]byte(out), &rows); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errOut)
	}
	return rows
}

// TestMisspelledConfigStoreIsNotMade names directories that are not there, or hold
// something else: the commands that look into a store say so, and leave no trace.
func TestMisspelledConfigStoreIsNotMade(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "certs")
	if code, _, errOut := command(t, "certs", "init", "--dir", ca, "--mesh", rhumb.NewUUID().String()); code != exitDone {
		t.Fatal(errOut)
	}
	for _, args := range [][]string{{"region", "list"}, {"region", "replace", "us"}, {"region", "replace", "us", "--yes"}, {"certs", "issue", "us", "--dir", ca}} {
		top := t.TempDir()
		for _, dir := range []string{filepath.Join(top, "nowhere"), top} {
			code, _, errOut := command(t, append(args, "--config-store", dir)...)
			if code != exitFailed || !strings.Contains(errOut, "there is no configuration store in "+dir) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("%v: exit code %d: %s", args, code, errOut)
			}
		}
		left, err := fs.Glob(os.DirFS(top), "*")
		if err != nil || len(left) > 0 {
			t.Errorf("%v left %v, %v", args, left, err)
		}
	}
}

// TestRegionReplaceAsks changes nothing without --yes, and says what is at stake.
func TestRegionReplaceAsks(t *testing.T) {
	dir, eu := meshOf(t, nobody)
	code, out, errOut := command(t, "region", "replace", "eu", "--config-store", dir)
	if code != exitFailed || !strings.Contains(out, eu.DataUUID.String()) || !strings.Contains(errOut, "--yes") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	var plan replaced
	code, out, _ = command(t, "region", "replace", "eu", "--config-store", dir, "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != exitFailed || plan.Was != eu.DataUUID || plan.Done {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if rows := regionsOf(t, dir); len(rows) != 1 || rows[0].DataUUID != eu.DataUUID || rows[0].Rebuilds != 0 {
		t.Fatalf("after a look: %+v", rows)
	}
	if code, out, errOut := command(t, "region", "replace", "eu", "--yes", "--config-store", dir); code != exitDone || errOut != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if rows := regionsOf(t, dir); len(rows) != 1 || !rows[0].DataUUID.IsZero() || rows[0].Rebuilds != 1 || rows[0].Number != eu.Number {
		t.Fatalf("after it was done: %+v", rows)
	}
	if _, out, _ := command(t, "region", "list", "--config-store", dir); !strings.Contains(out, "the next to start") {
		t.Errorf("the table does not say it: %s", out)
	}
}

// TestRegionReplaceTellsOfARunningRegion warns if somebody listens at its address.
func TestRegionReplaceTellsOfARunningRegion(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addr := listener.Addr().String()
	dir, _ := meshOf(t, addr)
	if code, _, errOut := command(t, "region", "replace", "eu", "--config-store", dir); code != exitFailed || !strings.Contains(errOut, "something answers at "+addr) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestRegionReplaceOfAnUnknownRegion(t *testing.T) {
	dir, _ := meshOf(t, nobody)
	if code, _, errOut := command(t, "region", "replace", "ue", "--config-store", dir); code != exitFailed || !strings.Contains(errOut, "rhumb region list") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
