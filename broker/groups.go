package broker

import (
	"context"
	"slices"
	"time"

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

// CommitOffsets stores positions of a group that CheckCommit accepted, all or
// none. They survive what the log survives.
func (b *Broker) CommitOffsets(ctx context.Context, group GroupKey, commits []OffsetCommit) error {
	if len(commits) == 0 {
		return nil
	}
	now := time.Now().UnixMilli()
	for i := range commits {
		commits[i].At = now
	}
	return b.region.CommitOffsets(ctx, group, commits)
}

// Offsets gives the positions of a group in topics that exist. Those of a
// deleted topic do not count for one of the same name: they are kept by id.
func (b *Broker) Offsets(group GroupKey) map[OffsetKey]OffsetCommit {
	all := b.region.Offsets(group)
	for k := range all {
		if _, ok := b.region.TopicByID(k.TopicID); !ok {
			delete(all, k)
		}
	}
	return all
}

// GroupNames lists the groups of a namespace that have anything stored, sorted.
func (b *Broker) GroupNames(tenant rhumb.Tenant, namespace rhumb.Namespace) []string {
	var names []string
	for _, k := range b.region.Groups() {
		if k.Tenant == tenant && k.Namespace == namespace {
			names = append(names, k.Group)
		}
	}
	slices.Sort(names)
	return names
}

// ProducerID gives an id for an idempotent producer that was never given before.
func (b *Broker) ProducerID(ctx context.Context) (int64, error) { return b.region.ProducerID(ctx) }
