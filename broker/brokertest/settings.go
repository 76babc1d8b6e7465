package brokertest

import (
	"context"
	"strconv"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// TestNode is the id of the only node, in Kafka's eyes.
const TestNode = 1001

// AlterTopicConfigs implements broker.Catalog.
func (r *Region) AlterTopicConfigs(_ context.Context, t rhumb.Topic, change func(map[string]string) (map[string]string, error)) (broker.TopicInfo, error) {
	info, ok := r.Topic(t)
	if !ok {
		return info, rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", t.Short())
	}
	after, err := change(info.Configs)
	if err != nil {
		return info, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	info.Configs = after
	r.topics[t] = info
	return info, nil
}

// Layers implements broker.Settings.
func (r *Region) Layers(t broker.TopicInfo) topicconf.Layers {
	l := r.NodeLayers()
	l.Topic = t.Configs
	return l
}

// NodeLayers implements broker.Settings.
func (r *Region) NodeLayers() topicconf.Layers {
	return topicconf.Layers{Node: r.Settings(strconv.Itoa(TestNode)), Region: r.Settings("")}
}

// Settings implements broker.Settings.
func (r *Region) Settings(node string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings[node]
}

// AlterSettings implements broker.Settings.
func (r *Region) AlterSettings(_ context.Context, node string, change func(map[string]string) (map[string]string, error)) error {
	after, err := change(r.Settings(node))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settings[node] = after
	return nil
}

// RoomFor implements broker.Catalog.
func (r *Region) RoomFor(int) error { return nil }

// Producers implements broker.Log.
func (r *Region) Producers(_ context.Context, ref rhumb.PartitionRef) ([]broker.ProducerState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p == nil {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	var list []broker.ProducerState
	for id, known := range p.producers {
		last := known.last[len(known.last)-1]
		list = append(list, broker.ProducerState{ID: id, Epoch: known.epoch, LastSequence: last.last, LastUse: r.usedAt(p, last.base)})
	}
	return list, nil
}

func (r *Region) usedAt(p *partition, base rhumb.Offset) int64 {
	for _, s := range p.batches {
		if s.Base == base {
			return s.Envelope.AppendTime
		}
	}
	return 0
}

// Disk implements broker.Region.
func (r *Region) Disk() (broker.Disk, error) {
	return broker.Disk{Dir: "memory", Total: 2 << 30, Free: 1 << 30}, nil
}

// size is what a partition's batches take.
func (p *partition) size() (n int64) {
	for _, s := range p.batches {
		n += int64(codec.EnvelopeSize + len(s.Batch))
	}
	return n
}
