package certs

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
)

// UserOf gives the name of the user that a client certificate stands for: that of
// its identity, if it is a client certificate of a mesh; else the subject's common
// name; else its first DNS name. Empty: it names nobody. Who signed the
// certificate is not looked at.
func UserOf(cert *x509.Certificate) string {
	if id, err := IdentityOf(cert); err == nil {
		if id.Role != RoleClient {
			return ""
		}
		return id.Name
	}
	if cert.Subject.CommonName != "" || len(cert.DNSNames) == 0 {
		return cert.Subject.CommonName
	}
	return cert.DNSNames[0]
}

// formerClient stood before a client's name in the common name of certificates
// that were issued at first.
const formerClient = "client "

// HasCommonName reports whether a certificate's subject has a common name. A mesh's
// client has its name there, or, in older ones, "client" and its name:
// either is asked for by either, so that a rule for it fits before and after its
// certificate is made anew. Who signed the certificate is not looked at.
func HasCommonName(cert *x509.Certificate, want string) bool {
	has := cert.Subject.CommonName
	id, err := IdentityOf(cert)
	if err == nil && id.Role == RoleClient && strings.TrimPrefix(has, formerClient) == id.Name {
		return strings.TrimPrefix(want, formerClient) == id.Name
	}
	return has == want
}

// KafkaServer gives the TLS configuration of a Kafka listener. With a CA among
// the files, clients must show a certificate that one of its certificates signed,
// of whichever mesh or none; [UserOf] says whose it is. TLS 1.2 is taken too, as
// clients of older runtimes speak nothing newer.
func KafkaServer(src *Source) *tls.Config {
	c := Server(src)
	c.MinVersion = tls.VersionTLS12
	if len(src.Current().Roots) == 0 {
		return c
	}
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := verify(src.Current(), cs, x509.ExtKeyUsageClientAuth)
		return err
	}
	return c
}
