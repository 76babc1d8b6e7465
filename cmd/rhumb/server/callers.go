package server

import (
	"crypto/tls"
	"crypto/x509"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// adminToken is the name of the token in admin.token or admin.token_file.
const adminToken = "token"

// openTokens opens the tokens that the file gives.
func (s *Server) openTokens() (*admin.Tokens, error) {
	a := s.cfg.Admin
	var all []admin.Token
	switch {
	case a.TokenFile != "":
		all = append(all, admin.Token{Name: adminToken, Role: admin.RoleAdmin, File: a.TokenFile})
	case a.Token != "":
		all = append(all, admin.Token{Name: adminToken, Role: admin.RoleAdmin, Secret: a.Token})
	}
	for _, t := range a.Tokens {
		role, err := admin.ParseRole(t.Role)
		if err != nil {
			return nil, err
		}
		all = append(all, admin.Token{Name: t.Name, Role: role, File: t.TokenFile})
	}
	return admin.OpenTokens(all)
}

// certificateRole checks a client certificate with the listener's CA, and says whom
// it stands for, and what the rules, or else whoever issued it, let that one do.
func (s *Server) certificateRole(source *certs.Source, mesh rhumb.UUID) func(tls.ConnectionState) (string, admin.Role, error) {
	return func(cs tls.ConnectionState) (string, admin.Role, error) {
		cert, err := certs.AdminPeer(source, mesh, cs)
		if cert == nil || err != nil {
			return "", 0, err
		}
		name := certs.UserOf(cert)
		if name == "" {
			name = cert.Subject.String()
		}
		text := certs.AccessOf(cert)
		for _, rule := range s.cfg.Admin.Certificates {
			if fits(rule, cert) {
				text = rule.Role
				break
			}
		}
		role, _ := admin.ParseRole(text) // none is no role
		return name, role, nil
	}
}

// fits reports whether a certificate has the name that the rule asks for.
func fits(rule config.AdminCertificate, cert *x509.Certificate) bool {
	switch {
	case rule.CN != "":
		return certs.HasCommonName(cert, rule.CN)
	case rule.OU != "":
		return slices.Contains(cert.Subject.OrganizationalUnit, rule.OU)
	}
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return slices.Contains(names, rule.SAN)
}

// tokenProblems tells of tokens that nobody has, because of their files.
func (s *Server) tokenProblems(problem func(part, state, format string, args ...any)) {
	for name, err := range s.in.tokens.Problems() {
		problem("admin token "+name, "refused", "%v; nobody has it until its file is right", err)
	}
	for name, other := range s.in.tokens.Shared() {
		problem("admin token "+name, "shared", "it is the same as the token %s, so whoever shows it is %[1]s with the role %s: give each its own", other.Name, other.Role)
	}
}
