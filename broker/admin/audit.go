package admin

import (
	"context"
	"fmt"
	"net/http"
)

// auditKey is where a request's change is noted, in its context.
type auditKey struct{}

// change is what a call did, for its audit line.
type change struct {
	object        string
	before, after uint64 // versions of the document, 0: there was or is none
	versioned     bool
}

// noted gives the request a place for what it will change.
func noted(r *http.Request) (*http.Request, *change) {
	c := &change{}
	return r.WithContext(context.WithValue(r.Context(), auditKey{}, c)), c
}

// changes notes what a call is about, such as "topic acme/shop/orders". A call
// that notes nothing is told by its path.
func changes(r *http.Request, format string, args ...any) {
	if c, there := r.Context().Value(auditKey{}).(*change); there {
		c.object = fmt.Sprintf(format, args...)
	}
}

// changesVersion notes the version that a document had, and the one that it has
// now; 0 is none.
func changesVersion(r *http.Request, before, after uint64) {
	if c, there := r.Context().Value(auditKey{}).(*change); there {
		c.before, c.after, c.versioned = before, after, true
	}
}

// maxAuditText bounds what a caller can put into an audit line, in bytes.
const maxAuditText = 512

func cut(text string) string {
	if len(text) > maxAuditText {
		return text[:maxAuditText] + "…"
	}
	return text
}

// audit writes who changed what, or tried to. Secrets are in bodies and headers,
// of which nothing is written.
func (s *Server) audit(r *http.Request, who caller, c *change, err error) {
	attrs := []any{"caller", who.name, "role", who.role.String(), "method", r.Method, "path", cut(r.URL.Path), "remote", r.RemoteAddr}
	if who.within != nil {
		attrs = append(attrs, "within", who.within.words())
	}
	if c.object != "" {
		attrs = append(attrs, "object", cut(c.object))
	}
	if c.versioned && err == nil {
		attrs = append(attrs, "version_before", c.before, "version", c.after)
	}
	if err != nil {
		s.log.Warn("admin change refused", append(attrs, "err", cut(err.Error()))...)
		return
	}
	s.log.Info("admin change", attrs...)
}

// refusedLogin writes that somebody came with a wrong token or certificate.
func (s *Server) refusedLogin(r *http.Request, err error) {
	s.log.Warn("admin login refused", "method", r.Method, "path", cut(r.URL.Path), "remote", r.RemoteAddr, "err", cut(err.Error()))
}
