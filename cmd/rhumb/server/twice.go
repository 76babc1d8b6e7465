package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	// askTime bounds the question to another process of this region, at start.
	askTime = time.Second
	// rewriteAfter is how long a region leaves its document to who wrote other
	// addresses into it: its links tell meanwhile which of two was first. It
	// doubles with each time, up to rewriteMost: two that cannot be told apart do
	// not fight.
	rewriteAfter = 10 * time.Second
	rewriteMost  = time.Hour
	// maxStatus bounds the answer, in bytes.
	maxStatus = 4 << 10
)

// checkAlone refuses to start beside a process of the same data directory, or of
// a copy of it, that answers at an address of the region's document.
func (s *Server) checkAlone(ctx context.Context, doc *configstore.Region) error {
	known, ok := s.room.view.Region(doc.Name)
	if !ok || known.DataUUID != doc.DataUUID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, addr := range known.Addresses[configstore.ProtocolAdmin] {
		if slices.Contains(doc.Addresses[configstore.ProtocolAdmin], addr) {
			continue // our own, if not bound yet
		}
		st, err := s.ask(ctx, addr)
		if err != nil || st.Region != doc.Name || st.Data != doc.DataUUID || st.Boot.IsZero() || st.Boot == s.boot {
			continue
		}
		return rhumb.Errorf(rhumb.KindForbidden, "region %s runs already: its process at %s answers, on the same data directory or a copy of it; "+
			"stop that one first, or look at the copy with 'rhumb log verify', which starts nothing", doc.Name, addr)
	}
	return nil
}

// ask gives what answers at an admin address. Who it is need not be proved: it
// can only keep this process from starting.
func (s *Server) ask(ctx context.Context, addr string) (st api.Status, err error) {
	scheme := "http://"
	if slices.ContainsFunc(s.listeners(config.ProtocolAdmin), func(l config.Listener) bool { return l.TLS != nil }) {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/healthz", nil)
	if err != nil {
		return st, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(req)
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	return st, json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&st)
}

// overwritten gives the region's document if another process wrote its own
// addresses into it.
func (s *Server) overwritten() (configstore.Region, bool) {
	doc, ok := s.room.view.Region(s.cfg.Region.Name)
	return doc, ok && !doc.Pinned && doc.DataUUID == s.room.said.DataUUID && !doc.SameAddresses(&s.room.said)
}

// isSecond reports whether a peer is linked to another process of this region.
func (s *Server) isSecond() bool {
	if s.room.links == nil {
		return false
	}
	for _, l := range s.room.links.Sums().Links {
		if l.Second {
			return true
		}
	}
	return false
}

// watchDocument writes the region's addresses again when others took their place,
// unless a peer says that this process is the second of its region.
func (s *Server) watchDocument(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	defer s.room.view.Subscribe(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	due := time.NewTimer(s.rewrite)
	due.Stop()
	defer due.Stop()
	pause, waiting := s.rewrite, false
	for {
		doc, other := s.overwritten()
		if other && !waiting {
			waiting = true
			due.Reset(pause)
			s.log.Warn("the region's document names other addresses than this process: another one registered as this region",
				"addresses", listing(&doc), "own", listing(&s.room.said), "updated_at", doc.UpdatedAt)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due.C:
			waiting, pause = false, min(2*pause, rewriteMost)
			if _, other = s.overwritten(); !other || s.isSecond() {
				continue
			}
			_, err := s.room.view.Writer(s.writer()).RegisterRegion(ctx, s.room.said, s.highestNumber())
			s.log.Info("the region's addresses are written again", "err", err)
		}
	}
}

// listing gives a region's addresses for people.
func listing(r *configstore.Region) string {
	all := slices.Clone(r.Geo)
	for _, p := range []string{configstore.ProtocolKafka, configstore.ProtocolNative, configstore.ProtocolAdmin} {
		all = append(all, r.Addresses[p]...)
	}
	return strings.Join(all, " ")
}

// twiceProblems tells of another process of this region.
func (s *Server) twiceProblems(problem func(part, state, format string, args ...any)) {
	if s.isSecond() {
		problem("region", "runs twice", "peers are linked to another process of this region and refuse this one; stop one of them")
	}
	if doc, other := s.overwritten(); other {
		problem("registration", "overwritten", "the region's document names %s, this process has %s: another one registered as this region; stop it",
			listing(&doc), listing(&s.room.said))
	}
}
