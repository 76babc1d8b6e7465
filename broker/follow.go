package broker

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// How long what failed waits for its next try: a deletion, and what is less urgent
// or needs the configuration store.
const (
	retryFollow = time.Second
	retryAgree  = 5 * time.Second
)

// CatchUp deletes topics that the mesh has deleted while this region was away. It
// returns when none is left, or with the error of ctx: what fails is tried again.
// Call it when the region is ready and before clients come, so that no topic that is
// gone takes a write.
func (b *Broker) CatchUp(ctx context.Context) error {
	for {
		err := b.deleteDeleted(ctx)
		if err == nil {
			return nil
		}
		b.log.Warn("deletion of a topic is tried again", "err", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryFollow):
		}
	}
}

// Follow brings topics in line with what the mesh says of them, until ctx ends: it
// deletes what the mesh has deleted, takes over settings and partitions, and tells
// the mesh of settings that it has not heard of. It looks now, after each change of
// the mesh's documents, and soon after each change of the region's topics, since one
// may have been made under a count that was just passed. What fails is tried again.
// Call it when the region is ready.
func (b *Broker) Follow(ctx context.Context) error {
	told, made := newFlag(), newFlag()
	defer b.cfg.Names.Subscribe(told.set)()
	defer b.region.Subscribe(made.set)()
	f := follower{b: b, logged: map[rhumb.Topic]string{}}
	for whole := true; ; {
		var retry <-chan time.Time
		if pause := f.look(ctx, whole); pause > 0 {
			retry = time.After(pause)
		}
		whole = true
		select {
		case <-ctx.Done():
			return nil
		case <-told:
		case <-retry:
		case <-made:
			whole = false
			// Thousands of topics may be made one after the other; do not look at
			// all of them for each.
			select {
			case <-ctx.Done():
				return nil
			case <-told:
				whole = true
			case <-time.After(retryFollow):
			}
		}
	}
}

// flag tells that something happened, once or often.
type flag chan struct{}

func newFlag() flag { return make(flag, 1) } // one change or many are the same

func (f flag) set() {
	select {
	case f <- struct{}{}:
	default:
	}
}

// deleteTogether is how many topics that the mesh has deleted are deleted here at the
// same time. Each waits for a flush of the log, which all that wait share.
const deleteTogether = 256

// deleteDeleted deletes all that the mesh has deleted. One topic's failure does not keep
// others.
func (b *Broker) deleteDeleted(ctx context.Context) error {
	var failed error
	for _, err := range b.deletedOf(ctx, b.region.Topics()) {
		if err != nil {
			failed = err
		}
	}
	return failed
}

// deletedOf deletes those of topics that the mesh has deleted, and gives for each of them
// what became of it here.
func (b *Broker) deletedOf(ctx context.Context, topics []TopicInfo) map[rhumb.Topic]error {
	var passed []*TopicInfo
	for i := range topics {
		if b.cfg.Names.Document(topics[i].Topic).Deletions > topics[i].Deletions {
			passed = append(passed, &topics[i])
		}
	}
	errs := make([]error, len(passed))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(passed), deleteTogether) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(passed); i = next.Add(1) - 1 {
				_, errs[i] = b.deletedInMesh(ctx, passed[i])
			}
		})
	}
	wg.Wait()
	out := make(map[rhumb.Topic]error, len(passed))
	for i, t := range passed {
		out[t.Topic] = errs[i]
	}
	return out
}

// deletedInMesh deletes a topic here that the mesh has deleted, and reports whether
// it has.
func (b *Broker) deletedInMesh(ctx context.Context, t *TopicInfo) (bool, error) {
	count := b.cfg.Names.Document(t.Topic).Deletions
	if count <= t.Deletions {
		return false, nil
	}
	if err := b.region.DeleteTopic(ctx, t.Topic, count); err != nil {
		return true, err
	}
	b.log.Info("topic deleted by the mesh", "topic", t.Topic.String(), "deletions", count)
	return true, nil
}

// follower remembers what it told of topics that are not as the mesh says.
type follower struct {
	b      *Broker
	mark   region.TopicsMark // of the last look
	logged map[rhumb.Topic]string
}

// topics gives those to be looked at: all, or those that changed since the last look, if
// all others are as the mesh says. Thousands that are made one after the other would else
// have all looked at each time.
func (f *follower) topics(whole bool) []TopicInfo {
	change := f.b.region.TopicsSince(f.mark)
	f.mark = change.Mark
	if whole || change.Whole || len(f.logged) > 0 {
		return f.b.region.Topics()
	}
	return change.Changed
}

// look brings topics in line once, and says after which pause that is to be tried
// again, 0 if all are as the mesh says. What was told of topics that are gone is forgotten.
func (f *follower) look(ctx context.Context, whole bool) (pause time.Duration) {
	topics, logged := f.topics(whole), map[rhumb.Topic]string{}
	defer func() { f.logged = logged }()
	deleted := f.b.deletedOf(ctx, topics)
	for _, t := range topics {
		err, gone := deleted[t.Topic]
		next := retryFollow
		if err == nil && !gone {
			err, next = f.b.agree(ctx, &t), retryAgree
		}
		if ctx.Err() != nil {
			return 0
		}
		if err == nil {
			continue
		}
		if pause == 0 || next < pause {
			pause = next
		}
		if logged[t.Topic] = err.Error(); f.logged[t.Topic] != err.Error() {
			f.b.log.Warn("topic is not as the mesh has it, and is looked at again", "topic", t.Topic.String(), "err", err)
		}
	}
	return pause
}

// agree gives a topic the mesh's settings, and at least its partitions; a topic of
// several regions whose settings the mesh has not heard of is told to it.
func (b *Broker) agree(ctx context.Context, t *TopicInfo) error {
	doc := b.cfg.Names.Document(t.Topic)
	switch {
	case doc.Deletions != t.Deletions:
		return nil
	case doc.Configs == nil && len(t.Configs) > 0 && b.cfg.Names.Travels(t.Topic):
		if err := b.publish(ctx, t); err != nil {
			return err
		}
	case doc.Configs != nil && !maps.Equal(doc.Configs, t.Configs):
		if err := b.takeConfigs(ctx, t.Topic, doc.Configs); err != nil {
			return err
		}
		b.log.Info("topic settings taken over from the mesh", "topic", t.Topic.String(), "version", doc.Version)
	}
	if int(doc.Partitions) > len(t.Partitions) {
		return b.GrowTopic(ctx, t, doc.Partitions)
	}
	return nil
}
