package replicator

import (
	"fmt"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// noDocuments is for a manager without [Documents].
type noDocuments struct{}

func (noDocuments) Tell() (none configstore.Told)           { return none }
func (noDocuments) Hear(rhumb.RegionName, configstore.Told) {}
func (noDocuments) HearRemoval(configstore.Removal)         {}
func (noDocuments) HearMember(rhumb.RegionName)             {}

// tellSeen tells the peer what this region has seen of the mesh's documents, if that is
// not what it was told last over this connection.
func (c *conn) tellSeen(last **configstore.Told) error {
	if c.features&featureSeen == 0 {
		return nil
	}
	now := c.m.cfg.Documents.Tell()
	if *last != nil && now.Equal(**last) {
		return nil
	}
	*last = &now
	f := wire.Seen{Changes: now.Changes}
	if !now.Since.IsZero() {
		f.Since = now.Since.UnixMilli()
	}
	for _, s := range now.Seen {
		f.List = append(f.List, wire.Sighting(s))
	}
	return c.writer.Write(&f)
}

// onSeen takes over what the peer tells.
func (c *conn) onSeen(f *wire.Seen) error {
	t := configstore.Told{Changes: f.Changes}
	if f.Since != 0 {
		t.Since = time.UnixMilli(f.Since)
	}
	for _, s := range f.List {
		if err := configstore.CheckKey(s.Key); err != nil {
			return brokenf("%w", err)
		}
		t.Seen = append(t.Seen, configstore.Sighting(s))
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.link.conn == c {
		c.m.cfg.Documents.Hear(c.link.name, t)
	}
	return nil
}

// refuseRemoved refuses a peer whose number this region knows to be retired.
func refuseRemoved(owner *configstore.Owner, theirs *wire.Hello) error {
	r := &refusal{reason: fmt.Sprintf("region %s, number %d, was removed from the mesh at %s: that number is retired, and its process must be stopped",
		owner.Name, owner.Number, owner.RemovedAt.UTC().Format(time.RFC3339))}
	if theirs.Optional&featureSeen != 0 && owner.Version > 0 {
		r.removed = &wire.Removed{Name: owner.Name, Number: owner.Number, Version: owner.Version, At: owner.RemovedAt.UnixMilli(), Text: r.reason}
	}
	return r
}

// removedBy makes an error of the reason with which a peer refuses a removed region.
func removedBy(reason string) error {
	said, err := wire.ParseRemoved(reason)
	if err != nil {
		return &refusal{reason: "the peer refuses: " + reason}
	}
	return &refusal{reason: "the peer refuses: " + said.Text, removed: &said}
}

// heardRemoval takes what a peer that was dialled refuses this region with as evidence that
// it was removed. Who says so is certain: a dial ends before that unless the certificate is
// the peer's. What is not about this region is nobody's word; and with a connection that
// the peer made meanwhile it has taken that back: a refusal may come late.
func (l *link) heardRemoval(err error) {
	r, ok := refusedAsRemoved(err)
	if self := l.m.cfg.Self; !ok || r.Name != self.Name || r.Number != self.Number {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return
	}
	l.m.cfg.Documents.HearRemoval(configstore.Removal{By: l.name, Name: r.Name, Number: r.Number, Version: r.Version, At: r.When()})
}

// member notes that the peer takes this region for one of the mesh. A version that tells
// nothing of what it has seen does not leave there what a former one told. The caller
// holds mu.
func (l *link) member(c *conn) {
	l.m.cfg.Documents.HearMember(l.name)
	if c.features&featureSeen == 0 {
		l.m.cfg.Documents.Hear(l.name, configstore.Told{})
	}
}
