package certs

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Role is what a certificate stands for.
type Role string

// The roles.
const (
	RoleRegion Role = "region"
	RoleClient Role = "client"
	RoleCA     Role = "ca" // only of a CA's own certificate: no identity has it
)

// Identity is who a certificate says that its holder is.
type Identity struct {
	Mesh rhumb.UUID
	Role Role
	Name string // of the region or client
}

const scheme = "rhumb"

// String gives the identity's URI.
func (id Identity) String() string { return id.uri().String() }

func (id Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: id.Mesh.String(), Path: "/" + string(id.Role) + "/" + id.Name}
}

func caURI(mesh rhumb.UUID) *url.URL {
	return &url.URL{Scheme: scheme, Host: mesh.String(), Path: "/ca"}
}

// IdentityOf reads the identity of a certificate, which must have exactly one.
// It does not check who signed it.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var found []Identity
	for _, u := range cert.URIs {
		if u.Scheme != scheme {
			continue
		}
		id, err := parseIdentity(u)
		if err != nil {
			return Identity{}, err
		}
		found = append(found, id)
	}
	if len(found) != 1 {
		return Identity{}, rhumb.Errorf(rhumb.KindForbidden, "certs: certificate %q names %d identities of the form rhumb://<mesh>/region/<name>, want one", cert.Subject.CommonName, len(found))
	}
	return found[0], nil
}

func parseIdentity(u *url.URL) (Identity, error) {
	refuse := func(why string) (Identity, error) {
		return Identity{}, rhumb.Errorf(rhumb.KindForbidden, "certs: identity %q: %s", u.String(), why)
	}
	var id Identity
	if err := id.Mesh.UnmarshalText([]byte(u.Host)); err != nil {
		return refuse("its host is no mesh UUID")
	}
	role, name, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	id.Role, id.Name = Role(role), name
	if !ok || id.Role != RoleRegion && id.Role != RoleClient {
		return refuse("its path is neither /region/<name> nor /client/<name>")
	}
	if rhumb.RegionName(name).Validate() != nil {
		return refuse("its name does not match [a-z][a-z0-9-]{0,31}")
	}
	if id.String() != u.String() {
		return refuse("it is not written " + id.String())
	}
	return id, nil
}

// Want says whom a connection is for. Zero Name means any of the role.
type Want Identity

// check names what differs.
func (w Want) check(id Identity) error {
	var differs string
	switch {
	case id.Mesh != w.Mesh:
		differs = fmt.Sprintf("mesh: the peer is of %s, this is %s", id.Mesh, w.Mesh)
	case id.Role != w.Role:
		differs = fmt.Sprintf("role: the peer is a %s, want a %s", id.Role, w.Role)
	case w.Name != "" && id.Name != w.Name:
		differs = fmt.Sprintf("%s: the peer is %q, want %q", w.Role, id.Name, w.Name)
	default:
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden, "certs: peer certificate has another %s", differs)
}
