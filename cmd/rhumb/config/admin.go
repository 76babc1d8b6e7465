package config

import (
	"net"
	"strconv"
	"strings"
)

// minToken is the length below which a token is a word that can be guessed.
const minToken = 16

// maxCallers bounds the lists of tokens and of rules for certificates.
const maxCallers = 256

// checkAdmin checks who may call the HTTP API.
func (c *Config) checkAdmin() error {
	a := &c.Admin
	if a.Token != "" && len(a.Token) < minToken {
		return refuse("admin.token", "has %d bytes, at least %d are needed", len(a.Token), minToken)
	}
	if strings.ContainsFunc(a.Token, invisible) {
		return refuse("admin.token", "must be of visible ASCII without spaces")
	}
	if len(a.Tokens) > maxCallers || len(a.Certificates) > maxCallers {
		return refuse("admin", "at most %d tokens and %d certificates are allowed", maxCallers, maxCallers)
	}
	seen := map[string]bool{"token": true, "local": true, "unknown": true} // words of audit lines
	for i, t := range a.Tokens {
		at := "admin.tokens[" + strconv.Itoa(i) + "]"
		switch {
		case t.Name == "" || len(t.Name) > 64 || strings.ContainsFunc(t.Name, invisible):
			return refuse(at+".name", "must be 1 to 64 visible ASCII characters")
		case seen[t.Name]:
			return refuse(at+".name", "%q stands twice, or means something else in the log", t.Name)
		case t.TokenFile == "":
			return refuse(at+".token_file", "is required")
		}
		seen[t.Name] = true
		if err := checkRole(at, t.Role); err != nil {
			return err
		}
	}
	for i, r := range a.Certificates {
		at := "admin.certificates[" + strconv.Itoa(i) + "]"
		given := 0
		for _, name := range []string{r.CN, r.OU, r.SAN} {
			if name != "" {
				given++
			}
		}
		if given != 1 {
			return refuse(at, "wants one of cn, ou and san")
		}
		if err := checkRole(at, r.Role); err != nil {
			return err
		}
	}
	for i, h := range a.Hosts {
		if h == "" || len(h) > 253 || strings.ContainsFunc(h, invisible) || strings.ContainsAny(h, "/@:") && net.ParseIP(h) == nil {
			return refuse("admin.hosts["+strconv.Itoa(i)+"]", "%q must be a host's name without a port", h)
		}
	}
	return nil
}

func invisible(r rune) bool { return r <= ' ' || r > '~' }

func checkRole(at, role string) error {
	return oneOf(at+".role", role, "tenant", "viewer", "operator", "admin")
}
