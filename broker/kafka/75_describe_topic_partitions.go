package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DescribeTopicPartitions (API 75): topics with their partitions, sorted by name,
// page by page (KIP-966).
//
// Version 0, flexible. No topic named means all. The cursor of an answer is where
// the next page begins; what a client sends back must be among what it asks for.
func init() {
	register(api{key: 75, min: 0, max: 0, handle: decodes(describeTopicPartitions)})
}

// maxDescribedPartitions bounds one page, whatever a client asks for.
const maxDescribedPartitions = 2000

func describeTopicPartitions(_ context.Context, r *request, req *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := describedNames(r.caller, req)
	from := req.Cursor
	if from != nil {
		if from.Partition < 0 || len(req.Topics) > 0 && !slices.Contains(names, from.Topic) {
			for _, name := range names {
				resp.Topics = append(resp.Topics, failedPartitions(name, withCode(codeInvalidRequest, "the cursor is not among the topics")))
			}
			return resp, nil
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name < from.Topic })
	}
	left := min(max(int(req.ResponsePartitionLimit), 1), maxDescribedPartitions)
	for _, name := range names {
		if left == 0 {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		info, err := r.caller.findTopic(false, name, [16]byte{})
		if err != nil {
			resp.Topics = append(resp.Topics, failedPartitions(name, err))
			continue
		}
		first := 0
		if from != nil && from.Topic == name {
			first = min(int(from.Partition), len(info.Partitions))
		}
		last := min(first+left, len(info.Partitions))
		resp.Topics = append(resp.Topics, r.conn.server.describePage(name, info, first, last))
		if left -= last - first; last < len(info.Partitions) {
			resp.NextCursor = cursorAt(name, last)
			break
		}
	}
	return resp, nil
}

// describedNames gives what is asked for, each once, sorted.
func describedNames(who *caller, req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, t := range req.Topics {
		names = append(names, t.Topic)
	}
	if len(req.Topics) == 0 {
		for _, info := range who.topics() {
			names = append(names, who.nameOf(info.Topic))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func cursorAt(topic string, partition int) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	return &c
}

func failedPartitions(name string, err error) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.AuthorizedOperations = &name, codeOf(scopeRead, err), notGiven
	return t
}

func (s *Server) describePage(name string, info *broker.TopicInfo, first, last int) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.TopicID, t.AuthorizedOperations = &name, info.ID, topicOperations
	here := []int32{s.cfg.NodeID}
	for i := first; i < last; i++ {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.Replicas, p.ISR = int32(i), s.cfg.NodeID, here, here
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		p.LeaderEpoch, p.ErrorCode = s.leadership(info, int32(i))
		t.Partitions = append(t.Partitions, p)
	}
	return t
}
