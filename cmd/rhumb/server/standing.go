package server

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// members are the documents of the mesh's regions for the API, with what this region
// has seen of numbers outside of the documents.
type members struct {
	broker.Documents
	server *Server
}

// Highest implements admin.Members.
func (m members) Highest() rhumb.RegionNumber { return m.server.highestNumber() }

// highestNumber is the highest region number that this region has seen: in the last
// good copy, and as an origin of what it holds.
func (s *Server) highestNumber() rhumb.RegionNumber {
	highest := broker.Documents{View: s.room.view}.Highest()
	if s.room.region == nil {
		return highest
	}
	for _, t := range s.room.region.Topics() {
		for _, p := range t.Partitions {
			st, ok := s.room.region.State(p.Ref)
			if !p.Ready || !ok {
				continue
			}
			for _, w := range st.Watermarks {
				highest = max(highest, w.Region)
			}
		}
	}
	return highest
}

// wasRemoved reports whether the mesh has removed the region of a data directory, as
// far as the last good copy says.
func (s *Server) wasRemoved(data rhumb.UUID) bool {
	_, gone := s.tombOf(data)
	return gone
}

func (s *Server) tombOf(data rhumb.UUID) (configstore.Owner, bool) {
	for _, o := range s.room.view.Owners() {
		if o.Gone && o.DataUUID == data {
			return o, true
		}
	}
	return configstore.Owner{}, false
}

// removedError is why a process of a removed region does not go on.
func (s *Server) removedError(data rhumb.UUID) error {
	o, _ := s.tombOf(data)
	return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s, number %d, left the mesh at %s, and its number is retired; its data stays in %s; "+
		"to have the name back under a new number, run 'rhumb region register %s' and start with an empty data directory",
		configstore.ErrRemoved, o.Name, o.Number, o.RemovedAt.UTC().Format(time.RFC3339), s.cfg.DataDir, o.Name)
}

// removed says that this process's region was removed from the mesh, as the documents
// here say, or those of a peer while no other peer takes it for a region; nil if not.
func (s *Server) removed() error {
	if o, ok := s.room.view.Owner(s.room.self.Number); ok && o.Gone {
		return s.removedError(o.DataUUID)
	}
	if r, ok := s.room.view.Removal(); ok && len(s.room.view.TakenBy()) == 0 {
		return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s, number %d, left the mesh at %s, says region %s, which takes nothing from here any more: it has seen version %d of its document, "+
			"and the configuration store that this region reads is older. Its data stays in %s, and can be read. If it is so, stop this process; "+
			"if not, put the store right: 'rhumb config status --region %s' and 'rhumb config restore' say what was seen there",
			configstore.ErrRemoved, r.Name, r.Number, r.At.UTC().Format(time.RFC3339), r.By, r.Version, s.cfg.DataDir, r.By)
	}
	return nil
}

// disputed says that a peer takes this region for removed, and another one does not; nil if
// that is not so. The region goes on, but changes nothing of the mesh's documents.
func (s *Server) disputed() error {
	r, ok := s.room.view.Removal()
	by := s.room.view.TakenBy()
	if !ok || len(by) == 0 {
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden, "region %s says that this region left the mesh at %s, and has seen version %d of its document; region %s takes its links: "+
		"producers are taken, changes of the mesh's documents are refused. If %s is right, stop this process; if not, put that one right, "+
		"or remove it with 'rhumb region remove %s --force'", r.By, r.At.UTC().Format(time.RFC3339), r.Version, by[0], r.By, r.By)
}

// ownDocument gives the region's document, false if it is another one's by now.
func (s *Server) ownDocument() (configstore.Region, bool) {
	doc, ok := s.room.view.Region(s.cfg.Region.Name)
	return doc, ok && doc.Number == s.room.self.Number
}

// applyStanding shuts the door for producers, or opens it, as the mesh's documents
// say.
func (s *Server) applyStanding() {
	doc, _ := s.ownDocument()
	switch err := s.removed(); {
	case err != nil:
		s.room.broker.RefuseProducers(rhumb.Errorf(rhumb.KindForbidden, "%w: %w", broker.ErrShut, err))
	case doc.Drains():
		s.room.broker.RefuseProducers(rhumb.Errorf(rhumb.KindForbidden, "%w: region %s drains since %s: publish in another region, "+
			"or take it back with 'rhumb region drain %s --undo'", broker.ErrShut, doc.Name, doc.StateAt.UTC().Format(time.RFC3339), doc.Name))
	default:
		s.room.broker.RefuseProducers(nil)
	}
}

// drainLook is how often a draining region looks whether it is done.
const drainLook = time.Second

// followStanding does what the mesh's documents say of this region: it refuses
// producers while it drains and after it was removed, and tells the mesh when all
// that it had to send is confirmed.
func (s *Server) followStanding(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	defer s.room.view.Subscribe(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	told, trusted := "", &trust{}
	for {
		s.applyStanding()
		told = s.logRemoved(told)
		s.noteDrained(ctx)
		s.noteTrust(ctx, trusted)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// logRemoved logs that this region was removed, or that it was not after all, and gives
// what was logged last: "" if nothing.
func (s *Server) logRemoved(told string) string {
	switch err := s.removed(); {
	case err == nil && told == "":
	case err == nil:
		s.log.Info("this region is in the mesh after all, and takes producers again")
		return ""
	case told != err.Error():
		s.log.Error("this region was removed from the mesh; stop it", "err", err)
		return err.Error()
	}
	return told
}

// noteDrained tells the mesh that nothing is left to send, if so. While a peer says that the
// region was removed it changes nothing of the mesh's documents, and need not try.
func (s *Server) noteDrained(ctx context.Context) {
	doc, ok := s.ownDocument()
	if _, told := s.room.view.Removal(); !ok || told || doc.State != configstore.RegionDraining {
		return
	}
	if d := s.remaining(); d.Producing+int64(len(d.Behind))+int64(len(d.Alone)) > 0 {
		return
	}
	if _, err := s.room.view.Writer(s.writer()).NoteDrained(ctx, doc.Name, doc.DataUUID); err != nil {
		s.log.Warn("cannot tell the mesh that this region is drained, tried again", "err", err)
		return
	}
	s.log.Info("region is drained: every record that was published here is confirmed")
}

// standingProblems tells of a region that drains or was removed, and reports whether
// the latter.
func (s *Server) standingProblems(problem func(part, state, format string, args ...any)) (removed bool) {
	if err := s.removed(); err != nil {
		if _, told := s.room.view.Removal(); told {
			problem("registration", "removed", "%v", err) // it says what to do
			return true
		}
		problem("registration", "removed", "%v; stop this process", err)
		return true
	}
	if err := s.disputed(); err != nil {
		problem("registration", "disputed", "%v", err)
	}
	if doc, ok := s.ownDocument(); ok && doc.Drains() {
		problem("region", string(doc.State), "takes no producers since %s; 'rhumb region show %s' says what is left to send, 'rhumb region drain %s --undo' takes it back",
			doc.StateAt.UTC().Format(time.RFC3339), doc.Name, doc.Name)
	}
	return false
}
