package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// CreateTopics (API 19): creates topics and answers when they can be used.
//
// Versions 2 to 7:
//   - 4: -1 partitions and replicas mean the default
//   - 5: flexible, and the answer tells settings and counts
//   - 7: topic id
//
// The replicas of a topic are the region's business, so a replication factor
// may only be what this region has. A topic that is named more than once is
// answered once, with an error, and nothing is done.
func init() {
	register(api{key: 19, min: 2, max: 7, handle: decodes(createTopics)})
}

// replicas is how many copies a region of one node has.
const replicas = 1

func createTopics(ctx context.Context, r *request, req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	names := counted(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	partitions := int32(0)
	var errs []error
	var specs []broker.TopicSpec // of those without an error
	for i := range req.Topics {
		ask := &req.Topics[i]
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = ask.Topic, -1, -1
		spec, err := broker.TopicSpec{}, error(nil)
		switch names.next(ask.Topic) {
		case answered:
			continue
		case several:
			err = errDuplicateTopic
		default:
			if partitions >= maxCreated {
				err = errManyCreated
				break
			}
			if spec, err = r.conn.server.topicSpec(r.caller, ask); err == nil {
				spec, err = r.conn.server.broker.CheckTopic(spec)
			}
		}
		partitions += max(spec.Partitions, 1)
		resp.Topics, errs, specs = append(resp.Topics, t), append(errs, err), append(specs, spec)
	}
	together(len(errs), func(i int) {
		if errs[i] == nil {
			errs[i] = r.conn.server.createTopic(ctx, specs[i], req.ValidateOnly, &resp.Topics[i])
		}
		resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = codeOf(scopeAdmin, errs[i]), text(errs[i])
	})
	return resp, nil
}

// maxCreated bounds the partitions of one request, as in Kafka: once it is
// reached, the topics that follow are refused.
const maxCreated = 10_000

var errManyCreated = withCode(codePolicyViolation, "Excessively large number of partitions per request.")

var errDuplicateTopic = withCode(codeInvalidRequest, "Duplicate topic name.")

// counts tells names that stand in a request once from others.
type counts map[string]int

// What counts says of a name.
const (
	single   = iota
	several  // for the first time
	answered // several, and not for the first time
)

func counted[T any](list []T, name func(*T) string) counts {
	c := counts{}
	for i := range list {
		c[name(&list[i])]++
	}
	return c
}

func (c counts) next(name string) int {
	switch n := c[name]; {
	case n < 0:
		return answered
	case n > 1:
		c[name] = -1
		return several
	}
	return single
}

// adminWait is how long an admin request wants to wait at most.
func adminWait(millis int32) time.Duration {
	d := time.Duration(millis) * time.Millisecond
	if d <= 0 {
		return handlerWait
	}
	return d
}

// createTopic makes a topic that was checked, unless it is only to be validated.
func (s *Server) createTopic(ctx context.Context, spec broker.TopicSpec, validate bool, out *kmsg.CreateTopicsResponseTopic) (err error) {
	info := broker.TopicInfo{Topic: spec.Topic, Configs: spec.Configs}
	if !validate {
		if info, err = s.broker.CreateTopic(ctx, spec); err != nil {
			return err
		}
	}
	out.TopicID, out.NumPartitions, out.ReplicationFactor = info.ID, spec.Partitions, replicas
	for _, e := range s.broker.TopicConfigs(&info) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = e.Name, e.Value, int8(configSources[e.Source])
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
		return spec, withCode(codeInvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	case ask.ReplicationFactor == 0 || ask.ReplicationFactor < -1:
		return spec, withCode(codeInvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case ask.ReplicationFactor > replicas:
		return spec, withCode(codeInvalidReplicationFactor, fmt.Sprintf(
			"Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.",
			ask.ReplicationFactor, ask.ReplicationFactor, replicas))
	case ask.NumPartitions == -1:
		spec.Partitions = 0 // the default
	}
	if spec.Partitions > s.broker.MaxPartitions() {
		return spec, withCode(codeInvalidPartitions, fmt.Sprintf("%d partitions, at most %d", spec.Partitions, s.broker.MaxPartitions()))
	}
	spec.Configs = make(map[string]string, len(ask.Configs))
	for _, c := range ask.Configs {
		if c.Value == nil {
			return spec, withCode(codeInvalidConfig, "Null value not supported for topic configs: "+c.Name)
		}
		spec.Configs[c.Name] = *c.Value
	}
	return spec, invalidConfig(topicconf.CheckTopic(spec.Configs, slices.Collect(maps.Keys(spec.Configs))...))
}

// assigned checks a manual assignment, which can only name this node, and gives
// the number of its partitions.
func (s *Server) assigned(ask *kmsg.CreateTopicsRequestTopic) (int32, error) {
	switch {
	case ask.ReplicationFactor != -1:
		return 0, withCode(codeInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case ask.NumPartitions != -1:
		return 0, withCode(codeInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	seen := map[int32]bool{}
	for _, a := range ask.ReplicaAssignment {
		if seen[a.Partition] {
			return 0, withCode(codeInvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.Partition))
		}
		seen[a.Partition] = true
		if err := s.checkReplicas(a.Replicas); err != nil {
			return 0, err
		}
	}
	for i := range ask.ReplicaAssignment {
		if !seen[int32(i)] {
			return 0, withCode(codeInvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	return int32(len(ask.ReplicaAssignment)), nil
}
