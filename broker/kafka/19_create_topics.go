package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// CreateTopics (API 19): creates topics and answers when they can be used.
//
// Versions 2 to 7:
//   - 4: -1 partitions and replicas mean the default
//   - 5: flexible, and the answer tells settings and counts
//   - 7: topic id
//
// The replicas of a topic are the region's business, so a replication factor
// may only be what this region has. Settings that are not known are kept.
func init() {
	register(api{key: 19, min: 2, max: 7, handle: decodes(createTopics)})
}

// replicas is how many copies a region of one node has.
const replicas = 1

func createTopics(ctx context.Context, r *request, req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	times := map[string]int{}
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		ask := &req.Topics[i]
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = ask.Topic, -1, -1
		err := error(nil)
		if times[ask.Topic] > 1 {
			err = withCode(codeInvalidRequest, "the request names the topic more than once")
		} else {
			err = r.conn.server.createTopic(ctx, r.caller, ask, req.ValidateOnly, &t)
		}
		t.ErrorCode, t.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// adminWait is how long an admin request wants to wait at most.
func adminWait(millis int32) time.Duration {
	d := time.Duration(millis) * time.Millisecond
	if d <= 0 {
		return handlerWait
	}
	return d
}

func (s *Server) createTopic(ctx context.Context, who *caller, ask *kmsg.CreateTopicsRequestTopic, validate bool, out *kmsg.CreateTopicsResponseTopic) error {
	spec, err := s.topicSpec(who, ask)
	if err != nil {
		return err
	}
	info := broker.TopicInfo{Configs: spec.Configs}
	if spec, err = s.broker.CheckTopic(spec); err == nil && !validate {
		info, err = s.broker.CreateTopic(ctx, spec)
	}
	if err != nil {
		return err
	}
	out.TopicID, out.NumPartitions, out.ReplicationFactor = info.ID, spec.Partitions, replicas
	for _, e := range s.broker.TopicConfigs(&info) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = e.Name, ptr(e.Value), int8(configSource(e))
		out.Configs = append(out.Configs, c)
	}
	return nil
}

func (s *Server) topicSpec(who *caller, ask *kmsg.CreateTopicsRequestTopic) (broker.TopicSpec, error) {
	name, err := who.parseTopic(ask.Topic)
	if err != nil {
		return broker.TopicSpec{}, err
	}
	spec := broker.TopicSpec{Topic: name, Partitions: ask.NumPartitions}
	switch {
	case len(ask.ReplicaAssignment) > 0:
		if spec.Partitions, err = s.assigned(ask); err != nil {
			return spec, err
		}
	case ask.NumPartitions == 0 || ask.NumPartitions < -1:
		return spec, withCode(codeInvalidPartitions, fmt.Sprintf("%d partitions", ask.NumPartitions))
	case ask.ReplicationFactor != -1 && ask.ReplicationFactor != replicas:
		return spec, withCode(codeInvalidReplicationFactor,
			fmt.Sprintf("replication factor %d, this region has %d node", ask.ReplicationFactor, replicas))
	case ask.NumPartitions == -1:
		spec.Partitions = 0 // the default
	}
	if spec.Partitions > s.broker.MaxPartitions() {
		return spec, withCode(codeInvalidPartitions, fmt.Sprintf("%d partitions, at most %d", spec.Partitions, s.broker.MaxPartitions()))
	}
	spec.Configs = make(map[string]string, len(ask.Configs))
	for _, c := range ask.Configs {
		if c.Value == nil {
			return spec, withCode(codeInvalidConfig, c.Name+" has no value")
		}
		spec.Configs[c.Name] = *c.Value
	}
	if err := broker.CheckConfigs(spec.Configs); err != nil {
		return spec, withCode(codeInvalidConfig, err.Error())
	}
	return spec, nil
}

// assigned checks a manual assignment, which can only name this node, and gives
// the number of its partitions.
func (s *Server) assigned(ask *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if ask.NumPartitions != -1 || ask.ReplicationFactor != -1 {
		return 0, withCode(codeInvalidRequest, "an assignment goes with no partition count and no replication factor")
	}
	seen := map[int32]bool{}
	for _, a := range ask.ReplicaAssignment {
		in := a.Partition >= 0 && int(a.Partition) < len(ask.ReplicaAssignment)
		if !in || seen[a.Partition] || len(a.Replicas) != replicas || a.Replicas[0] != s.cfg.NodeID {
			return 0, withCode(codeInvalidReplicaAssignment, fmt.Sprintf("partition %d: only node %d can be assigned", a.Partition, s.cfg.NodeID))
		}
		seen[a.Partition] = true
	}
	return int32(len(ask.ReplicaAssignment)), nil
}
