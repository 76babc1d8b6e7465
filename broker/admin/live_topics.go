package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// sources are the words for where a value comes from.
var sources = map[topicconf.Source]string{
	topicconf.FromTopic: "topic", topicconf.FromNamespace: "namespace", topicconf.FromNode: "node",
	topicconf.FromRegion: "region", topicconf.FromStatic: "file", topicconf.FromDefault: "default",
}

func (l Live) brokerTopic(name rhumb.Topic) (broker.TopicInfo, error) {
	t, found := l.Broker.Topic(name)
	if !found {
		return t, rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", name.Short())
	}
	return t, nil
}

// DeleteTopic deletes a topic; an empty scope is its namespace's.
func (l Live) DeleteTopic(ctx context.Context, name rhumb.Topic, scope string, force bool) error {
	t, err := l.brokerTopic(name)
	if err != nil {
		return err
	}
	return l.Broker.DeleteTopicIn(ctx, t, configstore.Scope(scope), force)
}

// GrowTopic gives a topic more partitions; links carry that on.
func (l Live) GrowTopic(ctx context.Context, name rhumb.Topic, partitions int32) error {
	t, err := l.brokerTopic(name)
	switch {
	case err != nil:
		return err
	case partitions > l.Broker.MaxPartitions():
		return rhumb.Errorf(rhumb.KindInvalid, "topic %s: %d partitions, at most %d", name.Short(), partitions, l.Broker.MaxPartitions())
	}
	return l.Broker.GrowTopic(ctx, &t, partitions)
}

// Settings lists what holds for a topic.
func (l Live) Settings(name rhumb.Topic) (TopicSettings, error) {
	t, err := l.brokerTopic(name)
	if err != nil {
		return TopicSettings{}, err
	}
	out := TopicSettings{}
	out.Version, out.Mesh = l.Broker.TopicInMesh(&t)
	for _, e := range l.Broker.TopicConfigs(&t) {
		s := Setting{Name: e.Name, Source: sources[e.Source], Doc: e.Doc}
		if e.Value != nil {
			s.Value = *e.Value
		}
		if d := topicconf.Topic(e.Name); d != nil {
			s.Effect = d.Effect
		}
		out.Settings = append(out.Settings, s)
	}
	return out, nil
}

// AlterSettings changes settings of a topic, where the mesh keeps them in all regions.
func (l Live) AlterSettings(ctx context.Context, name rhumb.Topic, set map[string]string, unset []string) error {
	var changes []broker.ConfigChange
	for _, key := range slices.Sorted(maps.Keys(set)) {
		changes = append(changes, broker.ConfigChange{Name: key, Value: set[key]})
	}
	for _, key := range unset {
		changes = append(changes, broker.ConfigChange{Name: key, Op: broker.ConfigDelete})
	}
	return l.Broker.AlterTopic(ctx, name, changes, false)
}
