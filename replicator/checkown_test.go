package replicator

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/certs"
)

// TestOwnCertificateThatHasNotBegunFailsTheCheck: peers refuse it until then.
func TestOwnCertificateThatHasNotBegunFailsTheCheck(t *testing.T) {
	later := time.Now().Add(48 * time.Hour)
	source, err := certs.New(nil, certs.Pair{Cert: &x509.Certificate{NotBefore: later, NotAfter: later.AddDate(2, 0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{cfg: Config{Certs: source}}
	if c := m.checkOwn(); c.OK || !strings.Contains(c.Detail, "is valid from "+later.UTC().Format(time.RFC3339)) {
		t.Errorf("%+v", c)
	}
}
