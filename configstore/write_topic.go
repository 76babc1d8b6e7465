package configstore

import (
	"context"
	"errors"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// DeleteLife deletes, in the whole mesh, the topic that was born under a deletion
// count, and gives the count above it. If the mesh has deleted that one already,
// by whomever, it changes nothing: two regions that delete a topic at the same time
// delete it once, and not what somebody made of its name meanwhile. Policy stays: a
// topic that was kept local stays local when it is made again.
func (w *Writer) DeleteLife(ctx context.Context, topic rhumb.Topic, born uint64) (uint64, error) {
	t, err := w.PutTopic(ctx, topic, func(t *Topic) error {
		if t.Deletions > born {
			return errUnchanged
		}
		*t = Topic{Meta: t.Meta, Topic: t.Topic, Deletions: born + 1, Topology: t.Topology, Retention: t.Retention}
		return nil
	})
	return t.Deletions, err
}

// TopicVersion asks the store which version of a topic's document it has, 0 for
// none. It does not change what the View shows.
func (v *View) TopicVersion(ctx context.Context, topic rhumb.Topic) (uint64, error) {
	d, err := v.cfg.Store.Get(ctx, TopicKey(topic))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return d.Version, err
}
