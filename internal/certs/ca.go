package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Default validities.
const (
	ValidCA   = 10 * 365 * 24 * time.Hour
	ValidLeaf = 365 * 24 * time.Hour
)

// backdate is how long before now a certificate begins, for clocks that differ.
const backdate = time.Hour

// Pair is a certificate and its key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// CA signs certificates of one mesh.
type CA struct {
	Pair
	Mesh rhumb.UUID
}

// NewCA makes the CA of a mesh. validFor zero means [ValidCA].
func NewCA(mesh rhumb.UUID, validFor time.Duration) (*CA, error) { return newCA(mesh, validFor, nil) }

// newCA is NewCA for a key that is there already; nil makes one.
func newCA(mesh rhumb.UUID, validFor time.Duration, key *ecdsa.PrivateKey) (*CA, error) {
	if mesh.IsZero() {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: a CA needs the UUID of its mesh")
	}
	if validFor <= 0 {
		validFor = ValidCA
	}
	tmpl := template("rhumb mesh "+mesh.String(), validFor)
	tmpl.URIs = []*url.URL{caURI(mesh)}
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.MaxPathLenZero = true, true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	pair, err := sign(tmpl, nil, key)
	if err != nil {
		return nil, err
	}
	return &CA{Pair: pair, Mesh: mesh}, nil
}

// IssueRegion makes the certificate of a region. hosts are the DNS names and IP
// addresses by which clients reach it. validFor zero means [ValidLeaf].
func (ca *CA) IssueRegion(name rhumb.RegionName, hosts []string, validFor time.Duration) (Pair, error) {
	return ca.issueRegion(name, hosts, validFor, nil)
}

func (ca *CA) issueRegion(name rhumb.RegionName, hosts []string, validFor time.Duration, key *ecdsa.PrivateKey) (Pair, error) {
	if err := name.Validate(); err != nil {
		return Pair{}, err
	}
	tmpl := template("region "+string(name), leafValidity(validFor))
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return ca.issue(tmpl, Identity{Mesh: ca.Mesh, Role: RoleRegion, Name: string(name)}, key)
}

// accessUnit stands before what a client may do in the HTTP API, in the
// certificate's organizational unit.
const accessUnit = "rhumb role "

// AccessOf gives the role in the HTTP API with which a client's certificate of a
// mesh was made; empty: none. Who signed it is not looked at.
func AccessOf(cert *x509.Certificate) string {
	if id, err := IdentityOf(cert); err != nil || id.Role != RoleClient {
		return ""
	}
	for _, unit := range cert.Subject.OrganizationalUnit {
		if role, is := strings.CutPrefix(unit, accessUnit); is {
			return role
		}
	}
	return ""
}

// IssueClient makes the certificate of a client, without a role in the HTTP API. Its name
// follows the rule of region names, and is the subject's common name. validFor zero means [ValidLeaf].
func (ca *CA) IssueClient(name string, validFor time.Duration) (Pair, error) {
	return ca.issueClient(name, Options{Valid: validFor}, nil)
}

func (ca *CA) issueClient(name string, o Options, key *ecdsa.PrivateKey) (Pair, error) {
	if err := rhumb.RegionName(name).Validate(); err != nil {
		return Pair{}, rhumb.Errorf(rhumb.KindInvalid, "certs: client name %q must match [a-z][a-z0-9-]{0,31}", name)
	}
	tmpl := template(name, leafValidity(o.Valid))
	if o.Access != "" {
		tmpl.Subject.OrganizationalUnit = []string{accessUnit + o.Access}
	}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.issue(tmpl, Identity{Mesh: ca.Mesh, Role: RoleClient, Name: name}, key)
}

func (ca *CA) issue(tmpl *x509.Certificate, id Identity, key *ecdsa.PrivateKey) (Pair, error) {
	tmpl.URIs = []*url.URL{id.uri()}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.BasicConstraintsValid = true
	return sign(tmpl, ca, key)
}

func leafValidity(d time.Duration) time.Duration {
	if d <= 0 {
		return ValidLeaf
	}
	return d
}

func template(name string, validFor time.Duration) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate),
		NotAfter:  now.Add(validFor),
	}
}

// sign has the certificate of a key signed by ca, or by the key itself if ca is
// nil. A nil key makes one.
func sign(tmpl *x509.Certificate, ca *CA, key *ecdsa.PrivateKey) (Pair, error) {
	var err error
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return Pair{}, err
		}
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, err
	}
	parent, by := tmpl, key
	if ca != nil {
		parent, by = ca.Cert, ca.Key
		if tmpl.NotAfter.After(ca.Cert.NotAfter) {
			tmpl.NotAfter = ca.Cert.NotAfter // it would not verify longer
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by)
	if err != nil {
		return Pair{}, rhumb.Errorf(rhumb.KindInternal, "certs: sign %q: %w", tmpl.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return Pair{Cert: cert, Key: key}, err
}

// Fingerprint gives the SHA-256 of a certificate in lower case hexadecimal, as it
// stands in a region's document.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
