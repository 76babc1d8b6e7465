package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ALPN is the protocol that links between regions speak.
const ALPN = "rhumb/1"

// LinkServer gives the TLS configuration of the side of a link that is dialled:
// the peer must show a certificate of a region of the mesh, whichever. Who it is
// tells [PeerOf].
func LinkServer(src *Source, mesh rhumb.UUID) *tls.Config {
	return mutual(src, Want{Mesh: mesh, Role: RoleRegion}, ALPN)
}

// LinkClient gives the TLS configuration of the side that dials: the peer must
// show the certificate of that region of the mesh.
func LinkClient(src *Source, mesh rhumb.UUID, peer rhumb.RegionName) *tls.Config {
	return mutual(src, Want{Mesh: mesh, Role: RoleRegion, Name: string(peer)}, ALPN)
}

// AdminServer gives the TLS configuration of an HTTP listener. With a CA among the
// files, a client may show a certificate, of which the handshake only proves that
// the client has its key: [AdminPeer] checks it, where a refusal can be explained.
func AdminServer(src *Source) *tls.Config {
	c := Server(src, "h2", "http/1.1")
	if len(src.Current().Roots) > 0 {
		c.ClientAuth = tls.RequestClientCert
	}
	return c
}

// AdminPeer gives the certificate that a client of an HTTP listener shows, nil if
// none. It must be signed by a CA that is trusted now, and be that of a client of
// the mesh, or of nobody of any mesh.
func AdminPeer(src *Source, mesh rhumb.UUID, cs tls.ConnectionState) (*x509.Certificate, error) {
	if len(cs.PeerCertificates) == 0 {
		return nil, nil
	}
	id, err := verify(src.Current(), cs, x509.ExtKeyUsageClientAuth)
	if err == nil && id != (Identity{}) {
		err = Want{Mesh: mesh, Role: RoleClient}.check(id)
	}
	return cs.PeerCertificates[0], err
}

// AdminClient gives the TLS configuration of a client of an HTTP listener of the
// region, which shows its own certificate if it has one. An empty region means any
// region of the mesh, and a zero mesh any certificate that the CA signed.
func AdminClient(src *Source, mesh rhumb.UUID, region rhumb.RegionName) *tls.Config {
	c := mutual(src, Want{Mesh: mesh, Role: RoleRegion, Name: string(region)}, "h2", "http/1.1")
	if mesh.IsZero() {
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			_, err := verify(src.Current(), cs, x509.ExtKeyUsageServerAuth)
			return err
		}
	}
	return c
}

// Server gives the TLS configuration of a listener whose clients show no
// certificate, such as a Kafka listener.
func Server(src *Source, alpn ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: alpn,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := src.Current().pair; pair != nil {
				return pair, nil
			}
			return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: no own certificate is given")
		},
	}
}

// mutual serves both sides of mutual TLS. The standard checks are replaced by
// VerifyConnection, because they know neither roots that change nor identities;
// it runs on both sides, also for resumed sessions.
func mutual(src *Source, want Want, alpn ...string) *tls.Config {
	c := Server(src, alpn...)
	c.ClientAuth = tls.RequireAnyClientCert
	c.InsecureSkipVerify = true
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair := src.Current().pair; pair != nil {
			return pair, nil
		}
		return &tls.Certificate{}, nil // none; the server says whether that will do
	}
	usage := x509.ExtKeyUsageServerAuth
	if want.Role == RoleClient {
		usage = x509.ExtKeyUsageClientAuth
	}
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		id, err := verify(src.Current(), cs, usage)
		if err != nil {
			return err
		}
		if id == (Identity{}) {
			_, err := IdentityOf(cs.PeerCertificates[0])
			return err
		}
		return want.check(id)
	}
	return c
}

// verify checks that the peer's certificate is signed by a trusted CA and valid
// now. The identity is zero if it names none.
func verify(l *Loaded, cs tls.ConnectionState, usage x509.ExtKeyUsage) (Identity, error) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, rhumb.Errorf(rhumb.KindForbidden, "certs: peer shows no certificate")
	}
	leaf := cs.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		between.AddCert(c)
	}
	id, idErr := IdentityOf(leaf)
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: l.pool, Intermediates: between, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return Identity{}, untrusted(leaf, id, err)
	}
	if idErr != nil {
		return Identity{}, nil
	}
	return id, nil
}

// untrusted names what is wrong with a certificate that does not verify.
func untrusted(leaf *x509.Certificate, id Identity, err error) error {
	who := leaf.Subject.CommonName
	if id != (Identity{}) {
		who = id.String() // what it claims; nobody vouches for it
	}
	var unknown x509.UnknownAuthorityError
	var bad x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return rhumb.Errorf(rhumb.KindForbidden, "certs: certificate of %.200q is signed by another CA, %.100q: %w", who, leaf.Issuer.CommonName, err)
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return rhumb.Errorf(rhumb.KindForbidden, "certs: certificate of %.200q is valid from %s to %s, now is %s", who,
			leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	}
	return rhumb.Errorf(rhumb.KindForbidden, "certs: certificate of %.200q: %w", who, err)
}

// PeerOf gives who the peer of a finished handshake is.
func PeerOf(cs tls.ConnectionState) (Identity, error) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, rhumb.Errorf(rhumb.KindForbidden, "certs: peer shows no certificate")
	}
	return IdentityOf(cs.PeerCertificates[0])
}
