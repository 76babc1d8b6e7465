package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// Metadata (API 3): nodes and topics.
//
// Versions 0 to 13:
//   - 1: null means all topics, an empty list none (in 0 it means all)
//   - 4: auto-creation can be declined
//   - 5: offline replicas
//   - 7: leader epochs
//   - 8: authorized operations, if they are asked for
//   - 9: flexible
//   - 10: topic ids
//   - 12: topics may be asked for by id alone
//   - 13: top-level error
//
// A topic that is created here is answered when it can be written. Nodes are
// named with the addresses of the listener that was asked.
func init() {
	register(api{key: 3, min: 0, max: 13, handle: decodes(metadata)})
}

// Versions of Metadata that change the request's meaning.
const (
	metadataEmptyIsNone    = 1
	metadataCreateOptional = 4
)

func metadata(ctx context.Context, r *request, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	host, port := r.conn.address()
	node := kmsg.NewMetadataResponseBroker()
	node.NodeID, node.Host, node.Port, node.Rack = s.cfg.NodeID, host, port, s.rack()
	resp.Brokers = append(resp.Brokers, node)
	resp.ClusterID = ptr(s.broker.ClusterID().String())
	resp.ControllerID = s.cfg.NodeID
	resp.AuthorizedOperations = r.caller.clusterOperations(req.IncludeClusterAuthorizedOperations)
	defer func() {
		for i := range resp.Topics {
			if resp.Topics[i].ErrorCode == 0 {
				resp.Topics[i].AuthorizedOperations = operations(req.IncludeTopicAuthorizedOperations)
			}
		}
	}()
	if req.Topics == nil || len(req.Topics) == 0 && req.Version < metadataEmptyIsNone {
		for _, info := range r.caller.topics() {
			resp.Topics = append(resp.Topics, s.describeTopic(r.caller.nameOf(info.Topic), &info))
		}
		return resp, nil
	}
	create := req.Version < metadataCreateOptional || req.AllowAutoTopicCreation
	asked := distinct(req.Topics)
	resp.Topics = make([]kmsg.MetadataResponseTopic, len(asked))
	var absent []int // topics that are to be made
	for i := range asked {
		if create && s.absent(r.caller, &asked[i]) {
			absent = append(absent, i)
			continue
		}
		resp.Topics[i] = s.askedTopic(ctx, r.caller, &asked[i], create)
	}
	together(len(absent), func(n int) {
		i := absent[n]
		resp.Topics[i] = s.askedTopic(ctx, r.caller, &asked[i], create)
	})
	return resp, nil
}

// distinct drops what is asked twice: some clients do, and count answers.
func distinct(asked []kmsg.MetadataRequestTopic) []kmsg.MetadataRequestTopic {
	type key struct {
		named bool
		name  string
		id    [16]byte
	}
	seen := map[key]bool{}
	var out []kmsg.MetadataRequestTopic
	for _, t := range asked {
		k := key{named: t.Topic != nil, id: t.TopicID}
		if t.Topic != nil {
			k.name, k.id = *t.Topic, [16]byte{}
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, t)
		}
	}
	return out
}

// absent reports whether a topic is asked for by a name that nothing has yet.
func (s *Server) absent(who *caller, ask *kmsg.MetadataRequestTopic) bool {
	if ask.Topic == nil {
		return false
	}
	name, err := who.parseTopic(*ask.Topic)
	if err != nil {
		return false
	}
	_, there := s.broker.Topic(name)
	return !there
}

func (s *Server) askedTopic(ctx context.Context, who *caller, ask *kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	if ask.Topic == nil {
		info, err := who.findTopic(true, "", ask.TopicID)
		if err != nil {
			return failedTopic(nil, ask.TopicID, err)
		}
		return s.describeTopic(who.nameOf(info.Topic), info)
	}
	name, err := who.parseTopic(*ask.Topic)
	if err != nil {
		return failedTopic(ask.Topic, ask.TopicID, err)
	}
	info, err := s.broker.Ensure(ctx, name, create)
	if err != nil {
		return failedTopic(ask.Topic, [16]byte{}, err)
	}
	return s.describeTopic(*ask.Topic, &info)
}

func failedTopic(name *string, id [16]byte, err error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.AuthorizedOperations = name, id, notGiven
	t.ErrorCode = codeOf(scopeRead, err)
	return t
}

// describeTopic names the topic as the client did.
func (s *Server) describeTopic(name string, info *broker.TopicInfo) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.AuthorizedOperations = &name, info.ID, notGiven
	here := []int32{s.cfg.NodeID}
	for i := range info.Partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), s.cfg.NodeID, here, here
		p.LeaderEpoch, p.ErrorCode = s.leadership(info, p.Partition)
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// leadership gives the leader epoch of a partition. One that is not there yet has
// none, and an error; its leader is named all the same: clients ask again, and
// some give up on a partition without one.
func (s *Server) leadership(info *broker.TopicInfo, index int32) (epoch int32, code int16) {
	state, err := s.broker.State(info, index)
	if err != nil || !info.Partitions[index].Ready {
		return -1, codeLeaderNotAvailable
	}
	return state.LeaderEpoch, codeNone
}
