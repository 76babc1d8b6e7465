package broker

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Limits of group names and commits.
const (
	MaxGroupName      = 255
	MaxCommitMetadata = 4096
)

// Group makes the key of a group that a client names, which is in the client's
// namespace.
func Group(tenant rhumb.Tenant, namespace rhumb.Namespace, name string) (GroupKey, error) {
	if name == "" || len(name) > MaxGroupName {
		return GroupKey{}, rhumb.Errorf(rhumb.KindInvalid, "group name of %d bytes, want 1 to %d", len(name), MaxGroupName)
	}
	return GroupKey{Tenant: tenant, Namespace: namespace, Group: name}, nil
}

// CheckCommit checks one position before it is stored.
func (b *Broker) CheckCommit(t *TopicInfo, c OffsetCommit) error {
	if _, err := partitionOf(t, c.Partition); err != nil {
		return err
	}
	switch {
	case c.Offset < 0:
		return rhumb.Errorf(rhumb.KindInvalid, "offset %d is negative", c.Offset)
	case len(c.Metadata) > MaxCommitMetadata:
		return rhumb.Errorf(rhumb.KindTooLarge, "metadata of %d bytes, at most %d", len(c.Metadata), MaxCommitMetadata)
	}
	return nil
}

// Coordinator gives the coordinator of consumer groups.
func (b *Broker) Coordinator() *groups.Coordinator { return b.groups }

// RunGroups looks after groups that nobody asks for, until ctx ends: members that
// do not come back, positions that nobody needs. Then it answers all that wait.
func (b *Broker) RunGroups(ctx context.Context) error {
	defer b.groups.Close()
	return b.groups.Run(ctx)
}

// CommitOffsets stores positions of a group that CheckCommit accepted, all or
// none, if the member may commit; done, which must not block, tells how it went.
// Positions survive what the log survives. Commits and rebalances of a group take
// place in the order of the calls.
func (b *Broker) CommitOffsets(group GroupKey, member groups.MemberRef, commits []OffsetCommit, done func(error)) {
	now := time.Now().UnixMilli()
	for i := range commits {
		commits[i].At = now
	}
	b.groups.Commit(group, member, commits, done)
}

// Offsets gives the positions of a group in topics that exist. Those of a
// deleted topic do not count for one of the same name: they are kept by id. The
// error, of kind not leader, is that of a node that does not coordinate the group.
func (b *Broker) Offsets(group GroupKey) (map[OffsetKey]OffsetCommit, error) {
	if _, ok := b.region.Coordinates(group); !ok {
		return nil, rhumb.Errorf(rhumb.KindNotLeader, "group %s is not coordinated by this node", group.Group)
	}
	all := b.region.Offsets(group)
	for k := range all {
		if _, ok := b.region.TopicByID(k.TopicID); !ok {
			delete(all, k)
		}
	}
	return all, nil
}

// ProducerID gives an id for an idempotent producer that was never given before.
func (b *Broker) ProducerID(ctx context.Context) (int64, error) { return b.region.ProducerID(ctx) }
