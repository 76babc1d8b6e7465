package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// checkHost refuses a Host header that is no IP address and no configured name.
// A web page that rebinds its own DNS name to this address sends that name.
func (s *Server) checkHost(r *http.Request) error {
	if s.knownHost(r.Host) {
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden,
		"host %q is not a name of this API: use an IP address or localhost, or add the name to admin.hosts in the region's file", cut(r.Host))
}

func (s *Server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.ContainsFunc(s.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// checkOrigin refuses what a web page of another site makes a browser send.
func (s *Server) checkOrigin(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return rhumb.Errorf(rhumb.KindForbidden, "requests made by pages of other sites are refused")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return rhumb.Errorf(rhumb.KindForbidden, "requests made by pages of %q are refused: this is %q", origin, r.Host)
	}
	return nil
}

// callerOf finds out who makes a request: whose token it carries, else whose
// client certificate TLS has verified. Where neither is configured, everybody who
// reaches the listener is an admin.
func (s *Server) callerOf(r *http.Request) (caller, error) {
	if !s.cfg.guarded() {
		return caller{name: "local", role: RoleAdmin}, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if r.Header.Get("Authorization") != "" {
		if strings.EqualFold(scheme, "Bearer") {
			return s.tried(r, func() (caller, error) { return s.tokenCaller(strings.TrimSpace(token)) })
		}
		return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: 'Authorization: Bearer TOKEN' is wanted, not %.20q", errOtherToken, scheme)
	}
	if s.cfg.Certificates != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return s.tried(r, func() (caller, error) { return s.certificateCaller(*r.TLS) })
	}
	return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: set %s", errNoToken, s.wanted())
}

// wanted says what a caller may come with.
func (s *Server) wanted() string {
	switch {
	case s.cfg.Certificates == nil:
		return "RHUMB_TOKEN"
	case !s.cfg.hasTokens():
		return "RHUMB_CERT and RHUMB_KEY to a client certificate of the mesh"
	}
	return "RHUMB_TOKEN, or RHUMB_CERT and RHUMB_KEY to a client certificate of the mesh"
}

// tried runs a login unless its address has failed too often, and counts failures.
func (s *Server) tried(r *http.Request, login func() (caller, error)) (caller, error) {
	from, now := addressOf(r.RemoteAddr), time.Now()
	if wait := s.failed.wait(from, now); wait > 0 {
		return caller{}, rhumb.Errorf(rhumb.KindUnavailable, "%w: try again in %s", errTooMany, wait.Round(time.Second)+time.Second)
	}
	who, err := login()
	if err != nil {
		s.failed.add(from, now)
	}
	return who, err
}

func (s *Server) tokenCaller(token string) (caller, error) {
	if s.cfg.Token != "" && sameToken(token, s.cfg.Token) {
		return caller{name: "token", role: RoleAdmin}, nil
	}
	if who, found := s.cfg.Tokens.find(token); found {
		return who, nil
	}
	return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: check RHUMB_TOKEN", errOtherToken)
}

func (s *Server) certificateCaller(cs tls.ConnectionState) (caller, error) {
	name, role, err := s.cfg.Certificates(cs)
	if err != nil {
		return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: %w; come with one of 'rhumb certs issue --client --role', in RHUMB_CERT and RHUMB_KEY", errOtherCert, err)
	}
	return caller{name: name, role: role, cert: cs.PeerCertificates[0].Subject.String()}, nil
}

// Errors of callers who have not said who they are. HTTP tells them from what is
// forbidden to everybody.
var (
	errNoToken    = errors.New("this API asks who you are")
	errOtherToken = errors.New("the token is none of this region's")
	errOtherCert  = errors.New("the client certificate is not taken")
	errTooMany    = errors.New("too many wrong tokens or certificates came from this address")
)

// sameToken compares in constant time, without giving away the length.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
