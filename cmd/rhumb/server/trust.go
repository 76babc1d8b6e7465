package server

import (
	"context"
	"slices"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/certs"
)

// trust is which CAs the region's links use, as it last looked at the files.
type trust struct {
	loaded  *certs.Loaded
	signer  string
	trusted []string
}

// look reads what the certificate files of the links hold now; false without links.
func (t *trust) look(s *Server) bool {
	for _, l := range s.listeners(config.ProtocolGeo) {
		source := s.in.certs[l.Name]
		if source == nil {
			continue
		}
		now := source.Current()
		if now == t.loaded {
			return true
		}
		t.loaded, t.signer, t.trusted = now, "", nil
		if ca := now.Signer(); ca != nil {
			t.signer = certs.Fingerprint(ca)
		}
		for _, root := range now.Roots {
			t.trusted = append(t.trusted, certs.Fingerprint(root))
		}
		return true
	}
	return false
}

// noteTrust tells the mesh which CAs the region's links use, so that an operator who
// rolls the CA over knows when all regions follow.
func (s *Server) noteTrust(ctx context.Context, t *trust) {
	doc, ok := s.ownDocument()
	if !ok || !t.look(s) || doc.CAFingerprint == t.signer && slices.Equal(doc.TrustedCAs, t.trusted) {
		return
	}
	if _, err := s.room.view.Writer(s.writer()).SetRegionCAs(ctx, doc.Name, t.signer, t.trusted); err != nil {
		s.log.Debug("cannot tell the mesh which CAs are trusted here, tried again", "err", err)
	}
}
