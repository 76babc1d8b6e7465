package replicator

import (
	"context"
	"fmt"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// admit decides whether the peer may have a session, by this region's own view
// of policy and topics (I4), and finds the partition. A refusal has a code and,
// for people, a text.
func (c *conn) admit(o *wire.Open) (rhumb.PartitionRef, wire.Code, string) {
	topic, index := o.Partition.Topic, o.Partition.Index
	var none rhumb.PartitionRef
	doc, _ := c.m.cfg.Policy.TopicDoc(topic)
	count := max(doc.Deletions, c.m.cfg.Region.Deletions(topic))
	have, ok := c.m.cfg.Region.Topic(topic)
	in, edge := c.link.edgeIn(topic)
	switch {
	case !edge:
		return none, wire.CodeForbidden, fmt.Sprintf("no edge leads here from region %s, as far as is known here", c.link.name)
	case o.Region != c.link.number && o.Region != c.m.cfg.Self.Number && !in.Brings(c.m.isGone(o.Region)):
		return none, wire.CodeForbidden, fmt.Sprintf("records of region %d come from region %s, whose edge to here does not forward", o.Region, c.link.name)
	case o.Deletions < count:
		return none, wire.CodeDeleted, fmt.Sprintf("the topic was deleted under count %d, this life was born under %d", count, o.Deletions)
	case !ok && c.m.cfg.Region.DeletedHere(topic, o.Deletions):
		return none, wire.CodeDeleted, "the topic was deleted in this region alone: create it here to have it again"
	case !ok || have.Deletions != o.Deletions:
		if why := c.settler.why(topic); why != "" {
			return none, wire.CodeNotFound, "the topic cannot be made here: " + why
		}
		return none, wire.CodeNotFound, "the topic does not exist here yet"
	}
	for i := range have.Partitions {
		if p := &have.Partitions[i]; p.Index == index && p.Ready {
			if p.Life == o.Life || slices.ContainsFunc(p.Past, func(l region.PastLife) bool { return l.Life == o.Life }) {
				return none, wire.CodeOwn, "the life is this region's own"
			}
			return p.Ref, wire.CodeNone, ""
		}
	}
	if why := c.settler.why(topic); why != "" {
		return none, wire.CodeNotFound, "the topic cannot be grown here: " + why
	}
	return none, wire.CodeNotFound, "the partition does not exist here yet"
}

// review looks at all sessions of the peer again after each change of policy or
// topics, and ends those that would not be admitted any more.
func (in *inbound) review(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.look:
		}
		for _, r := range in.all() {
			ref, code, text := in.conn.admit(&r.open)
			if code == wire.CodeNone && ref != r.ref {
				code, text = wire.CodeNotFound, "the partition was created again here"
			}
			if code == wire.CodeNone {
				continue
			}
			r.mu.Lock()
			r.machine.Fail(code, text)
			r.perform()
			r.mu.Unlock()
		}
	}
}

func (in *inbound) all() []*receiver {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]*receiver, 0, len(in.receivers))
	for _, r := range in.receivers {
		all = append(all, r)
	}
	return all
}
