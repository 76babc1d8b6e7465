package process

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// consulPrefix is where a mesh lies in its Consul.
const consulPrefix = "messaging/"

// StartWithConsul is Start for a mesh that a real Consul governs, with ACLs on: the
// regions have a token with the policy that the documentation shows.
func StartWithConsul(t testing.TB, names ...rhumb.RegionName) *Mesh {
	t.Helper()
	return start(&Mesh{t: t, Consul: consultest.Start(t, consultest.Options{ACL: true}), limits: smallLimits}, names)
}

// openStore opens the mesh's store. Who opens it, in Consul, gets a token of that
// name; that of "region" is the regions'.
func (m *Mesh) openStore(who string) (configstore.Store, error) {
	if m.Consul == nil {
		return embedded.Open(embedded.Config{Dir: filepath.Join(m.Dir, "config")})
	}
	path := filepath.Join(m.Dir, who+".token")
	token := m.Consul.TokenFor("rhumb-"+who, consultest.Policy(m.t, consulPrefix))
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	return consul.Open(consul.Config{Address: m.Consul.Addr, TokenFile: path, Prefix: consulPrefix})
}

// storeConfig is config_store in the regions' files.
func (m *Mesh) storeConfig() string {
	if m.Consul == nil {
		return "{embedded: {path: config}}"
	}
	return fmt.Sprintf("{consul: {address: %q, token_file: region.token, prefix: %s}}", m.Consul.Addr, consulPrefix)
}
