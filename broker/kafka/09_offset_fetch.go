package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// OffsetFetch (API 9): reads positions of groups.
//
// Versions 1 to 10:
//   - 2: null topics mean all that the group has
//   - 5: leader epochs
//   - 6: flexible
//   - 7: require stable, which all are without transactions
//   - 8: several groups
//   - 9: members of the new protocol, which is not offered
//   - 10: topic ids
//
// A partition without a position has offset -1 and no error. Metadata is never
// null, which some clients do not read.
func init() {
	register(api{key: 9, min: 1, max: 10, handle: decodes(offsetFetch)})
}

const (
	offsetFetchGroups  = 8
	offsetFetchWithIDs = 10
)

func offsetFetch(_ context.Context, r *request, req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= offsetFetchGroups {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, groupOffsets(r.caller, &req.Groups[i], req.Version >= offsetFetchWithIDs))
		}
		return resp, nil
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = req.Group
	if req.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		g := kmsg.NewOffsetFetchRequestGroupTopic()
		g.Topic, g.Partitions = t.Topic, t.Partitions
		one.Topics = append(one.Topics, g)
	}
	found := groupOffsets(r.caller, &one, false)
	resp.ErrorCode = found.ErrorCode
	for _, t := range found.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			q := kmsg.NewOffsetFetchResponseTopicPartition()
			q.Partition, q.Offset, q.LeaderEpoch, q.Metadata, q.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, q)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func groupOffsets(who *caller, ask *kmsg.OffsetFetchRequestGroup, byID bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = ask.Group
	var known map[broker.OffsetKey]broker.OffsetCommit
	key, err := who.group(ask.Group)
	if err == nil {
		known, err = who.server.broker.Offsets(key)
	}
	if err != nil {
		out.ErrorCode = codeOf(scopeGroup, err)
		return out
	}
	if ask.Topics == nil {
		out.Topics = allOffsets(who, known)
		return out
	}
	for _, t := range ask.Topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		info, err := who.findTopic(byID, t.Topic, t.TopicID)
		for _, partition := range t.Partitions {
			p := noPosition(partition)
			switch {
			case err == nil:
				if c, ok := known[broker.OffsetKey{TopicID: info.ID, Partition: partition}]; ok {
					p = position(c)
				}
			case byID: // a name without a topic has no positions; an id is a mistake
				p.ErrorCode = codeOf(scopeRead, err)
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

// allOffsets groups what a group has by topic.
func allOffsets(who *caller, all map[broker.OffsetKey]broker.OffsetCommit) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	at := map[rhumb.UUID]int{}
	for _, c := range all {
		i, ok := at[c.TopicID]
		if !ok {
			info, live := who.topicByID(c.TopicID)
			if !live {
				continue // deleted just now
			}
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic, t.TopicID = who.nameOf(info.Topic), info.ID
			i = len(out)
			at[c.TopicID] = i
			out = append(out, t)
		}
		out[i].Partitions = append(out[i].Partitions, position(c))
	}
	return out
}

func position(c broker.OffsetCommit) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := noPosition(c.Partition)
	p.Offset, p.LeaderEpoch, p.Metadata = int64(c.Offset), c.LeaderEpoch, &c.Metadata
	return p
}

func noPosition(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, -1, -1, ptr("")
	return p
}
