package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// checkHost refuses a Host header that is no IP address and no configured name.
// A web page that rebinds its own DNS name to this address sends that name.
func (s *Server) checkHost(r *http.Request) error {
	if s.knownHost(r.Host) {
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden,
		"host %q is not a name of this API: use an IP address or localhost, or add the name to the server's admin hosts", r.Host)
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
	return name == "localhost" || slices.Contains(s.cfg.Hosts, name)
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

// checkCaller asks for the token or a verified client certificate, where either
// is configured, and whether that caller may make the call.
func (s *Server) checkCaller(rt route, r *http.Request) error {
	who, err := s.callerOf(r)
	if err != nil {
		return err
	}
	return who.mayCall(rt)
}

// callerOf finds out who makes a request.
func (s *Server) callerOf(r *http.Request) (caller, error) {
	if !s.cfg.guarded() {
		return caller{name: "local", role: RoleAdmin}, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return caller{name: r.TLS.VerifiedChains[0][0].Subject.CommonName, role: RoleAdmin}, nil
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.cfg.Token != "" && bearer && sameToken(token, s.cfg.Token) {
		return caller{name: "token", role: RoleAdmin}, nil
	}
	if !bearer {
		return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: set RHUMB_TOKEN, or use a client certificate", errNoToken)
	}
	return caller{}, rhumb.Errorf(rhumb.KindForbidden, "%w: check RHUMB_TOKEN", errOtherToken)
}

// Errors of callers who have not said who they are. HTTP tells them from what is
// forbidden to everybody.
var (
	errNoToken    = errors.New("this API asks for a token")
	errOtherToken = errors.New("the token is not the one of this region")
)

// sameToken compares in constant time, without giving away the length.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
