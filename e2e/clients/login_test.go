package clients

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/e2e/process"
	"github.com/rhumbmq/rhumb/internal/porttest"
)

// addLogin gives the first region of a mesh a second door for Kafka clients, where
// the user alice logs in with the password secret, as docs/security.md tells. The
// region is started again for it.
func addLogin(t *testing.T, m *process.Mesh) (address string) {
	t.Helper()
	r := m.Regions[0]
	address = fmt.Sprintf("127.0.0.1:%d", porttest.Offset(t, 1)+config.PortsOf(0, 0).Kafka)
	text, err := os.ReadFile(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	door := fmt.Sprintf("listeners:\n  - {name: clients, protocol: kafka, bind: %q, sasl: {mechanisms: [SCRAM-SHA-512, SCRAM-SHA-256, PLAIN]}}\n", address)
	if err := os.WriteFile(r.Config, []byte(strings.Replace(string(text), "listeners:\n", door, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Stop()
	m.Restart(r.Name)
	env := []string{"RHUMB_ADDR=http://" + r.Admin, "RHUMB_PASSWORD=secret"}
	if res := process.Run(t, env, "user", "create", "alice", "--grant", "public/default"); res.Code != 0 {
		t.Fatalf("user create: %s\n%s%s", res.End, res.Stdout, res.Stderr)
	}
	return address
}
