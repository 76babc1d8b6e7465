package certs

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Client gives the TLS configuration of a client of somebody else's server, such
// as Consul, which need not know of meshes: the server's certificate must be of
// the source's CAs (the system's, if it has none) and of serverName, a name or an IP
// address. The own certificate, if there is one, is shown when the server asks.
func Client(src *Source, serverName string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if pair := src.Current().pair; pair != nil {
				return pair, nil
			}
			return &tls.Certificate{}, nil // Go's way to show none
		},
	}
	if len(src.Current().Roots) == 0 {
		return c
	}
	// Go's own check would keep the CAs of now; this one takes those of the moment.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if _, err := verify(src.Current(), cs, x509.ExtKeyUsageServerAuth); err != nil {
			return err
		}
		if err := cs.PeerCertificates[0].VerifyHostname(serverName); err != nil {
			return rhumb.Errorf(rhumb.KindForbidden, "certs: certificate of another server at %s, valid until %s: %w",
				serverName, cs.PeerCertificates[0].NotAfter.UTC().Format(time.RFC3339), err)
		}
		return nil
	}
	return c
}
